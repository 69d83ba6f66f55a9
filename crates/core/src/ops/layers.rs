//! What layers of networks compute, as formulas over any scalar. A tape records the same as groups of nodes (`tape/layers.rs`).

use crate::float::Float;
use crate::matrix_view::MatrixView;
use crate::ops::constant;
use crate::scalar::Scalar;

/// See [`Scalar::affine`].
pub(crate) fn affine<S: Scalar>(
    x: MatrixView<'_, S>,
    weights: MatrixView<'_, S>,
    biases: Option<&[S]>,
    out: &mut Vec<S>,
) {
    if let Some(poison) = poison(weights.rows(), biases) {
        return out.extend(std::iter::repeat_n(poison, x.rows() * weights.rows()));
    }
    let (mut row, mut weights_row) = (Vec::new(), Vec::new());
    for i in 0..x.rows() {
        let x = side_by_side(x, i, &mut row);
        for j in 0..weights.rows() {
            let weights = side_by_side(weights, j, &mut weights_row);
            out.push(match biases {
                Some(biases) => S::dot_bias(x, weights, biases[j]),
                None => S::dot(x, weights),
            });
        }
    }
}

/// See [`Scalar::layer_norm`].
pub(crate) fn layer_norm<S: Scalar>(
    x: MatrixView<'_, S>,
    gains: &[S],
    biases: Option<&[S]>,
    epsilon: S::Primal,
    out: &mut Vec<S>,
) {
    if x.rows() == 0 {
        return; // There may be more columns than memory.
    }
    let both = [Some(gains), biases].into_iter().flatten();
    if let Some(poison) = both
        .filter_map(|list| poison(x.columns(), Some(list)))
        .next()
    {
        return out.extend(std::iter::repeat_n(poison, x.rows() * x.columns()));
    }
    let mut row = Vec::new();
    for i in 0..x.rows() {
        let x = side_by_side(x, i, &mut row);
        let mean = S::mean(x);
        let scale = (S::variance(x) + epsilon).rsqrt();
        for (j, &element) in x.iter().enumerate() {
            let y = (element - mean) * scale * gains[j];
            out.push(biases.map_or(y, |biases| y + biases[j]));
        }
    }
}

/// See [`Scalar::causal_attention`].
pub(crate) fn causal_attention<S: Scalar>(
    x: MatrixView<'_, S>,
    heads: usize,
    mask: Option<&dyn Fn(usize, usize, usize) -> S::Primal>,
    out: &mut Vec<S>,
) {
    let Some(width) = head_width(x.columns(), heads) else {
        let row: Vec<S> = x.iter().take(x.columns()).collect();
        let one_more = vec![constant(0.0); row.len() + 1];
        let poison = S::dot(&one_more, &row);
        return out.extend(std::iter::repeat_n(poison, x.rows() * x.columns() / 3));
    };
    let scale = S::Primal::from_usize(width).rsqrt();
    for query in 0..x.rows() {
        for head in 0..heads {
            // The query (part 0), keys (1) or values (2) of the head.
            let part = |part: usize, rows| {
                let start = (part * heads + head) * width;
                x.part(rows, start..start + width)
            };
            let seen = 0..query + 1;
            let mut scores = Vec::new();
            affine(
                part(0, query..query + 1),
                part(1, seen.clone()),
                None,
                &mut scores,
            );
            scores.iter_mut().for_each(|score| *score *= scale);
            let mut weights = scores.clone();
            S::softmax(&scores, &mut weights);
            if let Some(mask) = mask {
                for (key, weight) in weights.iter_mut().enumerate() {
                    *weight *= mask(head, query, key);
                }
            }
            let weights = MatrixView::new(&weights, query + 1);
            affine(weights, part(2, seen).transposed(), None, out);
        }
    }
}

/// Numbers of a query, a key or a value of one head, if there are so many of each for every head and nothing is left.
pub(crate) fn head_width(columns: usize, heads: usize) -> Option<usize> {
    let parts = heads.checked_mul(3)?;
    let width = columns.checked_div(parts)?;
    (width > 0 && columns.is_multiple_of(parts)).then_some(width)
}

/// The numbers of a row as a slice, copied if need be.
fn side_by_side<'a, S: Copy>(
    matrix: MatrixView<'a, S>,
    row: usize,
    copy: &'a mut Vec<S>,
) -> &'a [S] {
    matrix.slice(row).unwrap_or_else(|| {
        copy.clear();
        copy.extend(matrix.row(row));
        copy
    })
}

/// What all results are if there are not so many items in a list: what `dot` makes of two lists that differ in length.
fn poison<S: Scalar>(count: usize, list: Option<&[S]>) -> Option<S> {
    let list = list.filter(|list| list.len() != count)?;
    Some(S::dot(&vec![constant(0.0); count], list))
}
