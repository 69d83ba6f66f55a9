//! Newton's method on Rosenbrock's function of 20 variables: each step solves its linear system by conjugate gradients, which need
//! products of the Hessian with directions and never the Hessian itself.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use burtorch_core::{Error, Float, Scalar, hvp};

fn rosenbrock<S: Scalar>(x: &[S]) -> S {
    let (one, hundred) = (S::Primal::ONE, S::Primal::from_f64(100.0));
    let valley =
        |pair: &[S]| (pair[1] - pair[0].square()).square() * hundred + (pair[0] - one).square();
    S::sum(&x.windows(2).map(valley).collect::<Vec<_>>())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    f64::dot(a, b)
}

/// a + scale·b
fn add(a: &[f64], scale: f64, b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + scale * b).collect()
}

/// The step p with Hp ≈ −g, by conjugate gradients; stops early where the function curves downwards.
fn newton_step(x: &[f64], gradient: &[f64]) -> Result<Vec<f64>, Error> {
    let mut step = vec![0.0; x.len()];
    let mut residual: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut direction = residual.clone();
    for _ in 0..x.len() {
        let squared = dot(&residual, &residual);
        if squared <= 1e-4 * dot(gradient, gradient) {
            break;
        }
        let product = hvp(|x| rosenbrock(x), x, &direction)?.product;
        let curvature = dot(&direction, &product);
        if curvature <= 0.0 {
            break;
        }
        step = add(&step, squared / curvature, &direction);
        residual = add(&residual, -squared / curvature, &product);
        direction = add(&residual, dot(&residual, &residual) / squared, &direction);
    }
    Ok(if dot(&step, &step) > 0.0 {
        step
    } else {
        direction
    })
}

fn main() -> Result<(), Error> {
    let mut x = vec![0.0; 20];
    for iteration in 0..200 {
        let at = hvp(|x| rosenbrock(x), &x, &vec![0.0; x.len()])?;
        let norm = f64::norm(&at.gradient);
        if iteration % 5 == 0 || norm < 1e-9 {
            println!(
                "step {iteration:3}: value {:.6e}, norm of the gradient {norm:.3e}",
                at.value
            );
        }
        if norm < 1e-9 {
            break;
        }
        let step = newton_step(&x, &at.gradient)?;
        let mut scale = 1.0;
        while rosenbrock(&add(&x, scale, &step)) > at.value && scale > 1e-10 {
            scale /= 2.0;
        }
        x = add(&x, scale, &step);
    }
    Ok(())
}
