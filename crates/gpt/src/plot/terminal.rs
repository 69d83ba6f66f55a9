//! A small curve in characters.

use super::{Curves, Points, is_drawable, range};

/// Characters across and down.
const SIZE: (usize, usize) = (60, 10);

/// The losses of a run: `·` on the training batches, `●` on validation text. Empty if there is nothing to draw.
///
/// The ranges of the axes are those of the numbers drawn, in nats per token and in steps.
#[must_use]
pub fn losses(curves: &Curves) -> String {
    let (training, validation) = (curves.training(), curves.validation());
    let all = || training.iter().chain(&validation);
    let (steps, values) = (range(all().map(|p| p.0)), range(all().map(|p| p.1)));
    let (Some(steps), Some(values)) = (steps, values) else {
        return String::new();
    };
    let mut canvas = [[' '; SIZE.0]; SIZE.1];
    draw(&mut canvas, &columns(&training, steps), values, '·');
    draw(&mut canvas, &columns(&validation, steps), values, '●');
    let rows = canvas.iter().enumerate().map(|(row, characters)| {
        let label = match row {
            0 => format!("{:8.4}", values.1),
            _ if row + 1 == SIZE.1 => format!("{:8.4}", values.0),
            _ => " ".repeat(8),
        };
        let characters: String = characters.iter().collect();
        format!("{label} │{}\n", characters.trim_end())
    });
    let rows: String = rows.collect();
    let (first, last) = (format!("step {:.0}", steps.0), format!("{:.0}", steps.1));
    let gap = SIZE.0.saturating_sub(first.len());
    format!(
        "{rows}{:9}└{}\n{:10}{first}{last:>gap$}\n{:10}· training  ● validation, nats per token",
        "",
        "─".repeat(SIZE.0),
        "",
        "",
    )
}

/// The mean of the points in each column, where there are any.
fn columns(points: &Points, steps: (f64, f64)) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0.0); SIZE.0];
    for &(step, value) in points.iter().filter(|&&(_, value)| is_drawable(value)) {
        let sum = &mut sums[place(step, steps, SIZE.0)];
        *sum = (sum.0 + value, sum.1 + 1.0);
    }
    let mean = |(sum, count)| (count > 0.0).then(|| sum / count);
    sums.into_iter().map(mean).collect()
}

fn draw(
    canvas: &mut [[char; SIZE.0]; SIZE.1],
    columns: &[Option<f64>],
    values: (f64, f64),
    mark: char,
) {
    for (column, value) in columns.iter().enumerate() {
        if let Some(value) = value {
            let row = SIZE.1 - 1 - place(*value, values, SIZE.1);
            canvas[row][column] = mark;
        }
    }
}

/// Where a number lies when a range is cut into `count` equal parts.
fn place(x: f64, (low, high): (f64, f64), count: usize) -> usize {
    ((x - low) / (high - low) * count as f64).min(count as f64 - 1.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::falling;

    #[test]
    fn the_curve_falls_from_the_upper_left_to_the_lower_right() {
        let text = losses(&falling("a", 600));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), SIZE.1 + 3, "{text}");
        assert!(lines[0].starts_with("  3.9950 │···"), "{text}");
        assert!(
            lines[9].starts_with("  2.0017 │") && lines[9].ends_with("···"),
            "{text}"
        );
        let evaluated = lines[..10].iter().filter(|line| line.contains('●'));
        assert_eq!(evaluated.count(), 2, "{text}");
        assert!(text.contains("step 2") && text.contains("600\n"), "{text}");
        assert_eq!(lines[10].chars().count(), 10 + SIZE.0);
        assert_eq!(lines[11].chars().count(), 10 + SIZE.0);
    }

    #[test]
    fn nothing_and_one_step_are_no_failure() {
        assert_eq!(losses(&falling("a", 0)), "");
        assert!(losses(&falling("a", 1)).contains('·'));
        let mut ruined = falling("a", 1);
        ruined.lines[0].loss = f64::NAN;
        assert_eq!(losses(&ruined), "");
    }
}
