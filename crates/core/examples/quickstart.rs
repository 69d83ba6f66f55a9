//! The graph of micrograd's README: its value, its gradients, and its drawing in `quickstart.dot`.
#![allow(clippy::print_stdout, reason = "an example prints its results")]
#![allow(
    clippy::misrefactored_assign_op,
    reason = "c += c + 1 is how the graph is written there"
)]

use burtorch_core::{Scalar, graph::Graph};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Graph::new();
    let (a, b) = (graph.var(-4.0_f64).label("a"), graph.var(2.0).label("b"));
    let (mut c, mut d) = (a + b, a * b + b.cube());
    c += c + 1.0;
    c += 1.0 + c - a;
    d += d * 2.0 + (b + a).relu();
    d += d * 3.0 + (b - a).relu();
    let f = (c - d).square();
    let g = (f / 2.0 + 10.0 / f).label("g");
    g.backward()?;
    let (value, da, db) = (g.value(), a.grad()?, b.grad()?);
    println!("g = {value:.4}, dg/da = {da:.4}, dg/db = {db:.4}");
    std::fs::write("quickstart.dot", graph.draw()?)?;
    Ok(())
}
