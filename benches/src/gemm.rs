//! The matrix products of training at the sizes of the presets: ours, through the op, beside other people's crates.
//!
//! A linear layer makes three: `y = x wᵀ`, and from the gradient of `y` those of `x` (`dy w`) and of `w` (`dyᵀ x`), which are added to
//! what is there. Sizes are rows × inputs × outputs.

#[cfg(feature = "gemm")]
mod crate_gemm;
mod crates;
mod ours;

use anyhow::{Result, ensure};
use burtorch_gpt::config::Preset;

use crate::speed::{Amount, Options, Work, header, report};
use crates::{CRATES, Matrix};
use ours::Layer;

/// Rows × inputs × outputs of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size {
    rows: usize,
    inputs: usize,
    outputs: usize,
}

/// One of the three products of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    Forward,
    InputGradient,
    WeightGradient,
}

const LAYOUTS: [Layout; 3] = [
    Layout::Forward,
    Layout::InputGradient,
    Layout::WeightGradient,
];

/// Symbols that the head tells apart.
const VOCABULARY: usize = 65;

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.json {
        println!("{}", header());
    }
    let mut sizes = sizes();
    sizes.retain(|size| options.wants(&size.name()));
    ensure!(
        !sizes.is_empty(),
        "no product of this name: expected part of a size, as in 8x24 (rows, inputs, outputs)"
    );
    for size in sizes {
        for layout in LAYOUTS {
            contest(size, layout, options.json)?;
        }
    }
    Ok(())
}

/// The layers of the presets: mini in micro-batches of 1, 8 and 16 sequences, small and base in their own.
fn sizes() -> Vec<Size> {
    let cases = [
        (Preset::Mini, 1),
        (Preset::Mini, 8),
        (Preset::Mini, 16),
        (Preset::Small, 3),
        (Preset::Base, 1),
    ];
    let layers = |(preset, sequences): (Preset, usize)| {
        let model = preset.model(VOCABULARY);
        let (rows, width) = (sequences * model.block_size, model.embed);
        let widths = [
            (width, 3 * width),
            (width, width),
            (width, 4 * width),
            (4 * width, width),
            (width, VOCABULARY),
        ];
        widths.map(|(inputs, outputs)| Size {
            rows,
            inputs,
            outputs,
        })
    };
    cases.into_iter().flat_map(layers).collect()
}

fn contest(size: Size, layout: Layout, json: bool) -> Result<()> {
    let layer = Layer::new(size)?;
    let mut memory = layer.memory();
    let work = |who, call| Work {
        pass: layout.name(),
        who,
        amount: Amount::Operations(size.operations()),
        call,
    };
    let mut works = vec![work("burtorch", layer.product(layout, &mut memory)?)];
    for rival in CRATES {
        let [a, b] = layout.factors(size, &layer);
        let mut result = vec![0.0; a.rows * b.columns];
        let call = move || (rival.product)(a, b, layout != Layout::Forward, &mut result);
        works.push(work(rival.name, Box::new(call)));
    }
    report("gemm", &size.name(), works, json)
}

impl Size {
    fn name(&self) -> String {
        format!("{}x{}x{}", self.rows, self.inputs, self.outputs)
    }

    fn operations(&self) -> f64 {
        2.0 * (self.rows * self.inputs * self.outputs) as f64
    }
}

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::InputGradient => "input gradient",
            Self::WeightGradient => "weight gradient",
        }
    }

    /// The matrices that are multiplied.
    fn factors<'a>(self, size: Size, layer: &'a Layer) -> [Matrix<'a>; 2] {
        let x = Matrix::new(layer.x(), size.rows, size.inputs);
        let w = Matrix::new(layer.w(), size.outputs, size.inputs);
        let dy = Matrix::new(layer.dy(), size.rows, size.outputs);
        match self {
            Self::Forward => [x, w.transposed()],
            Self::InputGradient => [dy, w],
            Self::WeightGradient => [dy.transposed(), x],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Element by element.
    fn by_hand(a: Matrix<'_>, b: Matrix<'_>) -> Vec<f32> {
        let element = |i, j| (0..a.columns).map(|k| a.at(i, k) * b.at(k, j)).sum();
        let row = |i| (0..b.columns).map(move |j| element(i, j));
        (0..a.rows).flat_map(row).collect()
    }

    fn near(found: &[f32], expected: &[f32]) -> bool {
        found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < 1e-4)
    }

    #[test]
    fn all_products_are_the_same() -> Result<()> {
        let size = Size {
            rows: 5,
            inputs: 7,
            outputs: 20,
        };
        let layer = Layer::new(size)?;
        for layout in LAYOUTS {
            let [a, b] = layout.factors(size, &layer);
            let expected = by_hand(a, b);
            assert!(near(&layer.result(layout)?, &expected), "{layout:?}");
            for rival in CRATES {
                let mut result = vec![9.0; expected.len()];
                (rival.product)(a, b, false, &mut result);
                assert!(near(&result, &expected), "{layout:?} {}", rival.name);
                (rival.product)(a, b, true, &mut result);
                let twice: Vec<f32> = expected.iter().map(|x| 2.0 * x).collect();
                assert!(near(&result, &twice), "{layout:?} {}", rival.name);
                assert!(!near(&result, &expected), "the comparison can fail");
            }
        }
        Ok(())
    }

    #[test]
    fn sizes_are_those_of_the_presets() {
        let names: Vec<String> = sizes().iter().map(Size::name).collect();
        for name in ["8x24x24", "128x24x96", "192x512x128", "256x384x1536"] {
            assert!(names.iter().any(|it| it == name), "{names:?}");
        }
        assert_eq!(sizes()[1].operations(), 9216.0);
    }
}
