//! The constants and polynomials of both types. The numbers come from `scripts/lanes.py fit`.

use super::Vectorised;

macro_rules! layout {
    ($float:ident $bits:ident, $fraction_bits:literal, $sqrt_half:literal) => {
        #[inline(always)]
        fn scale(x: Self, shifted: Self) -> Self {
            // n is split into two halves, each offset so that it is positive; their powers are normal numbers.
            const FIELD: $bits = (1 << ($bits::BITS - $fraction_bits)) - 1;
            let n = shifted.to_bits().wrapping_add(FIELD / 2 + 1) & FIELD;
            let half = n >> 1;
            let first = Self::from_bits(half.wrapping_sub(1) << $fraction_bits);
            let second = Self::from_bits((n - half).wrapping_sub(1) << $fraction_bits);
            x * first * second
        }

        #[inline(always)]
        fn power_of_minus(shifted: Self) -> Self {
            Self::from_bits(
                (1 as Self)
                    .to_bits()
                    .wrapping_sub(shifted.to_bits() << $fraction_bits),
            )
        }

        #[inline(always)]
        fn split(x: Self) -> (Self, Self) {
            const SQRT_HALF: $bits = $sqrt_half;
            const FRACTION: $bits = (1 << $fraction_bits) - 1;
            const INTEGERS: $float = ((1 as $bits) << $fraction_bits) as $float;
            const BIAS: $float = ($bits::MAX >> ($fraction_bits + 2)) as $float;
            const LIFT: $float = $fraction_bits as $float + 2.0;
            let subnormal = x < Self::MIN_POSITIVE;
            let lifted = if subnormal { x * (INTEGERS * 4.0) } else { x };
            let bits = lifted
                .to_bits()
                .wrapping_sub(SQRT_HALF)
                .wrapping_add((1 as $float).to_bits());
            let exponent =
                Self::from_bits(INTEGERS.to_bits() | (bits >> $fraction_bits)) - (INTEGERS + BIAS);
            let significand = Self::from_bits((bits & FRACTION) + SQRT_HALF);
            (significand, exponent - if subnormal { LIFT } else { 0.0 })
        }

        #[inline(always)]
        fn with_sign_of(x: Self, sign: Self) -> Self {
            x.copysign(sign)
        }
    };
}

impl Vectorised for f32 {
    const HALF: Self = 0.5;
    const TWO: Self = 2.0;
    const SQRT_2: Self = std::f32::consts::SQRT_2;
    const ROUND: Self = 12_582_912.0;
    const LOG2_E: Self = std::f32::consts::LOG2_E;
    const LN_2_HIGH: Self = 0.693_359_4;
    const LN_2_LOW: Self = -2.121_944_4e-4;
    const EXP_HIGH: Self = 89.0;
    const EXP_LOW: Self = -104.0;
    const EXP_M1_LOW: Self = -18.0;
    const LARGE_EXPONENT: Self = 50.0;
    const LARGE: Self = 18_446_744_073_709_551_616.0;

    #[inline(always)]
    fn exp_remainder(r: Self) -> Self {
        const C: [f32; 6] = [
            0.5,
            0.166_666_67,
            0.041_666_355,
            8.333_273e-3,
            1.394_099_8e-3,
            1.991_415_5e-4,
        ];
        let square = r * r;
        let (low, middle, high) = (C[0] + C[1] * r, C[2] + C[3] * r, C[4] + C[5] * r);
        low + square * (middle + square * high)
    }

    #[inline(always)]
    fn artanh_remainder(z: Self) -> Self {
        const C: [f32; 4] = [0.666_666_7, 0.400_003_35, 0.285_373_1, 0.235_821_22];
        (C[0] + C[1] * z) + z * z * (C[2] + C[3] * z)
    }

    layout! { f32 u32, 23, 0x3f35_04f3 }
}

impl Vectorised for f64 {
    const HALF: Self = 0.5;
    const TWO: Self = 2.0;
    const SQRT_2: Self = std::f64::consts::SQRT_2;
    const ROUND: Self = 6_755_399_441_055_744.0;
    const LOG2_E: Self = std::f64::consts::LOG2_E;
    const LN_2_HIGH: Self = 0.693_147_180_369_123_8;
    const LN_2_LOW: Self = 1.908_214_929_270_587_7e-10;
    const EXP_HIGH: Self = 710.0;
    const EXP_LOW: Self = -746.0;
    const EXP_M1_LOW: Self = -38.0;
    const LARGE_EXPONENT: Self = 50.0;
    const LARGE: Self = 18_446_744_073_709_551_616.0;

    #[inline(always)]
    fn exp_remainder(r: Self) -> Self {
        const C: [f64; 11] = [
            0.5,
            0.166_666_666_666_666_77,
            0.041_666_666_666_666_7,
            8.333_333_333_321_626e-3,
            1.388_888_888_886_684_8e-3,
            1.984_126_988_613_211e-4,
            2.480_158_736_053_459e-5,
            2.755_724_421_142_052_6e-6,
            2.755_724_278_004_293e-7,
            2.510_903_368_366_159_4e-8,
            2.092_443_660_429_096e-9,
        ];
        let square = r * r;
        let fourth = square * square;
        let first = (C[0] + C[1] * r) + square * (C[2] + C[3] * r);
        let second = (C[4] + C[5] * r) + square * (C[6] + C[7] * r);
        let third = (C[8] + C[9] * r) + square * C[10];
        first + fourth * (second + fourth * third)
    }

    #[inline(always)]
    fn artanh_remainder(z: Self) -> Self {
        const C: [f64; 7] = [
            0.666_666_666_666_673_4,
            0.399_999_999_994_149,
            0.285_714_287_423_459_2,
            0.222_221_985_769_475,
            0.181_835_641_498_548_28,
            0.153_140_546_858_654_58,
            0.147_959_113_217_972_14,
        ];
        let square = z * z;
        let (first, second) = (C[0] + C[1] * z, C[2] + C[3] * z);
        let third = (C[4] + C[5] * z) + square * C[6];
        first + square * (second + square * third)
    }

    layout! { f64 u64, 52, 0x3fe6_a09e_667f_3bcd }
}
