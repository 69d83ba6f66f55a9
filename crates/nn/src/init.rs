//! Seeded initialisers.
//!
//! Numbers are drawn in `f64` and then rounded, so an `f32` model and an `f64` model of one seed agree. Every parameter
//! has a random stream of its own, chosen by its name: adding a layer leaves the numbers of all others as they were.

use burtorch_tensor::{Element, Error, Result, Shape};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal, StandardUniform};

/// How a parameter gets its first numbers.
///
/// `I` and `O` are the inputs and outputs that one weight array connects (fan-in and fan-out): for the shape `[O, I]` of
/// a linear layer its two dimensions; in a higher rank all dimensions after the first count as inputs; a vector or a
/// single number has one input.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Init {
    /// The same number everywhere.
    Constant(f64),
    /// Normal with mean 0: `N(0, std²)`.
    Normal {
        /// Standard deviation.
        std: f64,
    },
    /// Uniform on `[−bound, bound)`, whose standard deviation is `bound/√3`.
    Uniform {
        /// Largest absolute value.
        bound: f64,
    },
    /// `N(0, 1/I)`: LeCun, Bottou, Orr and Müller, *Efficient backprop*, 1998, eq. 16. Keeps the variance forward where
    /// nothing follows that changes it, as in what reads a normalised vector.
    LecunNormal,
    /// `N(0, 2/(I + O))`: Glorot and Bengio, *Understanding the difficulty of training deep feedforward neural
    /// networks*, 2010, eq. 12. Keeps variances about equal forward and backward where the activation is near the
    /// identity around 0 (tanh).
    XavierNormal,
    /// `U(−√(6/(I + O)), √(6/(I + O)))`: the same paper, eq. 16; same variance as [`Init::XavierNormal`].
    XavierUniform,
    /// `N(0, 2/I)`: He, Zhang, Ren and Sun, *Delving deep into rectifiers*, 2015, eq. 10. Keeps the variance forward
    /// through ReLU, which drops half of it.
    KaimingNormal,
    /// `U(−√(6/I), √(6/I))`: same variance as [`Init::KaimingNormal`].
    KaimingUniform,
}

impl Init {
    /// All 0: biases.
    pub const ZEROS: Init = Init::Constant(0.0);

    /// All 1: the gain of a normalisation.
    pub const ONES: Init = Init::Constant(1.0);

    /// `N(0, 0.02²)`: weights and embeddings of GPT-2 (as in GPT: Radford et al., *Improving language understanding by
    /// generative pre-training*, 2018, section 4.1).
    pub const GPT2: Init = Init::Normal { std: 0.02 };

    /// `N(0, (0.02/√(2·layers))²)`: the weights that write into the residual stream, of which each of the `layers`
    /// blocks has two. The scale keeps the sum of all of them at the size of one (Radford et al., *Language models are
    /// unsupervised multitask learners*, 2019, section 2.3; kept by Brown et al., *Language models are few-shot
    /// learners*, 2020, section 2.1).
    ///
    /// ```
    /// use burtorch_nn::Init;
    /// assert_eq!(Init::gpt2_residual(2), Init::Normal { std: 0.01 });
    /// ```
    #[must_use]
    pub fn gpt2_residual(layers: usize) -> Init {
        Init::Normal {
            std: 0.02 / (2.0 * layers.max(1) as f64).sqrt(),
        }
    }

    /// The first numbers of the parameter `name` under `seed`; the same three always give the same bits.
    ///
    /// ```
    /// use burtorch_nn::Init;
    /// use burtorch_tensor::Shape;
    ///
    /// # fn main() -> Result<(), burtorch_tensor::Error> {
    /// let shape = Shape::new(&[2, 3])?;
    /// let a: Vec<f32> = Init::XavierUniform.draw(shape, 1, "first.weight")?;
    /// assert_eq!(a, Init::XavierUniform.draw(shape, 1, "first.weight")?);
    /// assert_ne!(a, Init::XavierUniform.draw(shape, 1, "second.weight")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Setting`] for a standard deviation or bound that is negative or not finite, or a constant that is not
    /// finite; [`Error::Shape`] if there is no memory for so many numbers.
    pub fn draw<T: Element>(self, shape: Shape, seed: u64, name: &str) -> Result<Vec<T>> {
        let scale = self.scale(shape)?;
        let mut rng = stream(seed, name);
        match self {
            Init::Constant(_) => collect(shape, || scale),
            Init::Normal { .. } | Init::LecunNormal | Init::XavierNormal | Init::KaimingNormal => {
                collect(shape, || {
                    scale * Distribution::<f64>::sample(&StandardNormal, &mut rng)
                })
            }
            Init::Uniform { .. } | Init::XavierUniform | Init::KaimingUniform => {
                collect(shape, || {
                    scale * (2.0 * Distribution::<f64>::sample(&StandardUniform, &mut rng) - 1.0)
                })
            }
        }
    }

    /// The constant, the standard deviation or the bound.
    fn scale(self, shape: Shape) -> Result<f64> {
        let outputs = shape.dims().first().copied().unwrap_or(1);
        let inputs = (shape.len() / outputs) as f64;
        let both = inputs + outputs as f64;
        match self {
            Init::Constant(value) => checked("constant", value, f64::NEG_INFINITY),
            Init::Normal { std } => checked("standard deviation", std, 0.0),
            Init::Uniform { bound } => checked("bound", bound, 0.0),
            Init::LecunNormal => Ok((1.0 / inputs).sqrt()),
            Init::XavierNormal => Ok((2.0 / both).sqrt()),
            Init::XavierUniform => Ok((6.0 / both).sqrt()),
            Init::KaimingNormal => Ok((2.0 / inputs).sqrt()),
            Init::KaimingUniform => Ok((6.0 / inputs).sqrt()),
        }
    }
}

fn checked(name: &'static str, value: f64, smallest: f64) -> Result<f64> {
    let expected = if smallest == 0.0 {
        "finite and not negative"
    } else {
        "finite"
    };
    match value.is_finite() && value >= smallest {
        true => Ok(value),
        false => Err(Error::Setting {
            op: "initialiser",
            name,
            expected,
            found: value,
        }),
    }
}

fn collect<T: Element>(shape: Shape, mut draw: impl FnMut() -> f64) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values
        .try_reserve_exact(shape.len())
        .map_err(|_| Error::Shape {
            dims: shape.dims().to_vec(),
            reason: "not enough memory for its numbers",
        })?;
    values.extend((0..shape.len()).map(|_| T::from_f64(draw())));
    Ok(values)
}

/// The random stream of one name under one seed. ChaCha takes a 64-bit stream number beside its key; streams of one key
/// do not overlap, and here the number is the hash of the name.
fn stream(seed: u64, name: &str) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(hash(name));
    rng
}

/// 64-bit FNV-1a (Fowler, Noll, Vo): for every byte, exclusive or, then multiply by the prime 2⁴⁰ + 2⁸ + 0xB3. Part of
/// the contract that a seed always gives the same model, so it never changes.
pub(crate) fn hash(name: &str) -> u64 {
    let offset_basis = 0xCBF2_9CE4_8422_2325;
    name.bytes().fold(offset_basis, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul((1 << 40) + (1 << 8) + 0xB3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DRAWS: [usize; 2] = [200, 500];

    fn draw(init: Init) -> Vec<f64> {
        let shape = Shape::new(&DRAWS).expect("a small shape");
        init.draw(shape, 7, "weight").expect("a valid initialiser")
    }

    /// Mean, standard deviation, largest absolute value.
    fn statistics(values: &[f64]) -> (f64, f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        (
            mean,
            variance.sqrt(),
            values.iter().fold(0.0, |m, v| v.abs().max(m)),
        )
    }

    /// With 1e5 draws the mean is within 4 std/√n and the standard deviation within 1 %.
    fn check_spread(values: &[f64], std: f64) -> std::result::Result<(), String> {
        let (mean, found, _) = statistics(values);
        if mean.abs() > 4.0 * std / (values.len() as f64).sqrt() {
            return Err(format!("mean {mean} is not near 0"));
        }
        match (found / std - 1.0).abs() < 0.01 {
            true => Ok(()),
            false => Err(format!("standard deviation: expected {std}, found {found}")),
        }
    }

    #[test]
    fn the_check_of_the_spread_can_fail() {
        let values = draw(Init::Normal { std: 1.0 });
        assert!(check_spread(&values, 1.0).is_ok());
        assert!(check_spread(&values, 1.02).is_err());
        let shifted: Vec<f64> = values.iter().map(|v| v + 0.02).collect();
        assert!(check_spread(&shifted, 1.0).is_err());
    }

    #[test]
    fn every_initialiser_has_the_spread_of_its_formula() {
        let [outputs, inputs] = DRAWS.map(|n| n as f64);
        for (init, std) in [
            (Init::Normal { std: 3.0 }, 3.0),
            (Init::Uniform { bound: 3.0 }, 3f64.sqrt()),
            (Init::GPT2, 0.02),
            (Init::gpt2_residual(6), 0.02 / 12f64.sqrt()),
            (Init::LecunNormal, (1.0 / inputs).sqrt()),
            (Init::XavierNormal, (2.0 / (inputs + outputs)).sqrt()),
            (Init::XavierUniform, (2.0 / (inputs + outputs)).sqrt()),
            (Init::KaimingNormal, (2.0 / inputs).sqrt()),
            (Init::KaimingUniform, (2.0 / inputs).sqrt()),
        ] {
            check_spread(&draw(init), std).unwrap_or_else(|e| panic!("{init:?}: {e}"));
        }
    }

    #[test]
    fn uniform_fills_its_interval_and_normal_leaves_it() {
        let bound = (6.0f64 / 700.0).sqrt();
        let (_, _, uniform) = statistics(&draw(Init::XavierUniform));
        let (_, _, normal) = statistics(&draw(Init::XavierNormal));
        assert!(
            uniform <= bound && uniform > 0.999 * bound,
            "{uniform} of {bound}"
        );
        assert!(normal > 2.0 * bound);
    }

    #[test]
    fn constants_are_exact() {
        assert!(draw(Init::ZEROS).iter().all(|&v| v == 0.0));
        assert!(draw(Init::ONES).iter().all(|&v| v == 1.0));
    }

    #[test]
    fn f34_names_and_seeds_have_their_own_streams() -> Result<()> {
        let shape = Shape::new(&[100])?;
        let of = |seed, name| Init::GPT2.draw::<f64>(shape, seed, name);
        let lists = [of(1, "a")?, of(1, "b")?, of(2, "a")?, of(2, "b")?];
        for (i, list) in lists.iter().enumerate() {
            for other in &lists[..i] {
                assert!(list.iter().all(|v| !other.contains(v)));
            }
        }
        Ok(())
    }

    #[test]
    fn the_hash_gives_the_published_values() {
        assert_eq!(hash(""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(hash("a"), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(hash("foobar"), 0x8594_4171_F739_67E8);
    }

    #[test]
    fn impossible_spreads_are_refused() {
        for init in [
            Init::Normal { std: -1.0 },
            Init::Normal { std: f64::NAN },
            Init::Uniform {
                bound: f64::INFINITY,
            },
            Init::Constant(f64::NAN),
        ] {
            let drawn = init.draw::<f32>(Shape::SCALAR, 1, "x");
            assert!(matches!(drawn, Err(Error::Setting { .. })), "{init:?}");
        }
    }

    #[test]
    fn more_numbers_than_memory_are_an_error() -> Result<()> {
        let drawn = Init::ZEROS.draw::<f64>(Shape::new(&[1 << 58])?, 1, "x");
        assert!(matches!(drawn, Err(Error::Shape { .. })));
        Ok(())
    }

    proptest! {
        #[test]
        fn f34_same_seed_same_bits_in_both_widths(seed: u64, name in "[a-z.]{0,12}", rows in 1usize..9, columns in 1usize..9) {
            let shape = Shape::new(&[rows, columns])?;
            for init in [Init::GPT2, Init::LecunNormal, Init::XavierUniform, Init::KaimingNormal] {
                let wide: Vec<f64> = init.draw(shape, seed, &name)?;
                let narrow: Vec<f32> = init.draw(shape, seed, &name)?;
                prop_assert_eq!(&wide, &init.draw::<f64>(shape, seed, &name)?);
                prop_assert_eq!(narrow, wide.iter().map(|&v| v as f32).collect::<Vec<_>>());
            }
        }
    }
}
