//! [`MatrixView`]: numbers of a slice, seen as rows and columns.

use std::ops::Range;

/// Numbers that lie in a slice at equal distances, seen as rows and columns: a matrix stored row by row, a part of one, or its transpose.
///
/// ```
/// use burtorch_core::MatrixView;
///
/// let numbers = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let matrix = MatrixView::new(&numbers, 3); // two rows of three
/// assert_eq!(matrix.row(1).collect::<Vec<_>>(), [4.0, 5.0, 6.0]);
/// let columns = matrix.part(0..2, 1..3).transposed();
/// assert_eq!((columns.rows(), columns.columns()), (2, 2));
/// assert_eq!(columns.row(1).collect::<Vec<_>>(), [3.0, 6.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MatrixView<'a, S> {
    numbers: &'a [S],
    rows: usize,
    columns: usize,
    row_step: usize,
    column_step: usize,
}

impl<'a, S: Copy> MatrixView<'a, S> {
    /// Rows of `columns` numbers each, one behind the other: as many as there are, without the numbers that make no whole row. No rows if
    /// there are no columns.
    #[must_use]
    pub fn new(numbers: &'a [S], columns: usize) -> Self {
        Self {
            numbers,
            rows: numbers.len().checked_div(columns).unwrap_or(0),
            columns,
            row_step: columns,
            column_step: 1,
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(self) -> usize {
        self.rows
    }

    /// Number of columns.
    #[must_use]
    pub fn columns(self) -> usize {
        self.columns
    }

    /// Whether there are no numbers.
    pub(crate) fn is_empty(self) -> bool {
        self.rows == 0 || self.columns == 0
    }

    /// The number at a place, if there is one.
    pub(crate) fn get(self, row: usize, column: usize) -> Option<S> {
        let there = row < self.rows && column < self.columns;
        let place = row * self.row_step + column * self.column_step;
        there.then(|| self.numbers[place])
    }

    /// Some of the rows and columns.
    ///
    /// # Panics
    ///
    /// If there are not so many, as a slice would.
    #[must_use]
    pub fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(
            rows.start <= rows.end && rows.end <= self.rows,
            "rows {rows:?} of {}",
            self.rows
        );
        assert!(
            columns.start <= columns.end && columns.end <= self.columns,
            "columns {columns:?} of {}",
            self.columns
        );
        let start = rows.start * self.row_step + columns.start * self.column_step;
        Self {
            numbers: self.numbers.get(start..).unwrap_or_default(),
            rows: rows.len(),
            columns: columns.len(),
            ..self
        }
    }

    /// Rows as columns and columns as rows.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_step: self.column_step,
            column_step: self.row_step,
            ..self
        }
    }

    /// The numbers of a row.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    #[inline(always)]
    pub fn row(self, row: usize) -> impl ExactSizeIterator<Item = S> + Clone + use<'a, S> {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let first = self.numbers.get(row * self.row_step..).unwrap_or_default();
        first
            .iter()
            .step_by(self.column_step)
            .take(self.columns)
            .copied()
    }

    /// The numbers of a row, if they lie side by side.
    #[inline(always)]
    pub(crate) fn slice(self, row: usize) -> Option<&'a [S]> {
        let first = row * self.row_step;
        if self.column_step == 1 {
            self.numbers.get(first..first + self.columns)
        } else {
            None
        }
    }

    /// All numbers, row by row.
    pub(crate) fn iter(self) -> impl Iterator<Item = S> + Clone {
        (0..self.rows).flat_map(move |row| self.row(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(matrix: MatrixView<'_, u32>) -> Vec<Vec<u32>> {
        (0..matrix.rows())
            .map(|row| matrix.row(row).collect())
            .collect()
    }

    #[test]
    fn parts_and_transposes_hold_what_they_say() {
        let numbers: Vec<u32> = (0..14).collect();
        let matrix = MatrixView::new(&numbers, 4); // the last two numbers make no row
        assert_eq!(rows(matrix), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]);
        let part = matrix.part(1..3, 1..4);
        assert_eq!(rows(part), [[5, 6, 7], [9, 10, 11]]);
        assert_eq!(rows(part.transposed()), [[5, 9], [6, 10], [7, 11]]);
        assert_eq!(rows(part.transposed().part(2..3, 0..2)), [[7, 11]]);
        assert_eq!(part.slice(1), Some(&[9, 10, 11][..]));
        assert_eq!(part.transposed().slice(1), None);
        assert_eq!(
            part.transposed().iter().collect::<Vec<_>>(),
            [5, 9, 6, 10, 7, 11]
        );
    }

    #[test]
    fn nothing_is_a_matrix_too() {
        let none = MatrixView::<u32>::new(&[], 0);
        assert_eq!((none.rows(), none.columns()), (0, 0));
        let numbers = [1, 2, 3, 4];
        let matrix = MatrixView::new(&numbers, 2);
        assert_eq!(rows(matrix.part(2..2, 0..2)), Vec::<Vec<u32>>::new());
        assert_eq!(rows(matrix.part(0..2, 2..2)), [[], []] as [[u32; 0]; 2]);
        assert_eq!(matrix.part(0..2, 2..2).transposed().rows(), 0);
    }

    #[test]
    #[should_panic(expected = "rows 1..3 of 2")]
    fn rows_that_are_not_there_are_refused() {
        let _ = MatrixView::new(&[1, 2, 3, 4], 2).part(1..3, 0..1);
    }
}
