//! Records a small regression once, then descends along its gradient: every step only evaluates.
//! Then saves the program, loads it, and evaluates what came back.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use burtorch_core::{Program, Scalar};

/// The mean square by which a line misses three points; w is its slope and its height at 0.
fn loss<S: Scalar<Primal = f64>>(w: &[S]) -> S {
    let miss = |x: f64, y: f64| w[0] * x + w[1] - y;
    S::mean_of_squares(&[miss(0.0, 1.0), miss(1.0, 3.0), miss(2.0, 5.0)])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = Program::record(2, |w| loss(w))?;
    let mut evaluator = program.evaluator();
    let mut w = [0.0, 0.0];
    for step in 0..=200 {
        let (value, gradient) = evaluator.value_and_gradient(&w)?;
        if step % 50 == 0 {
            println!("step {step:3}: loss {value:.6} at {w:.4?}");
        }
        w = [w[0] - 0.2 * gradient[0], w[1] - 0.2 * gradient[1]];
    }

    let path = std::env::temp_dir().join("regression.program");
    program.save(&path)?;
    let loaded = Program::<f64>::load(&path)?;
    std::fs::remove_file(&path)?;
    println!(
        "{} instructions, loss after loading {:.1e}",
        loaded.len(),
        loaded.evaluator().values(&w)?[0]
    );
    Ok(())
}
