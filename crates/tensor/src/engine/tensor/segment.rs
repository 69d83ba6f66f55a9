//! Parts of a model whose results are forgotten and computed again on the way back.
//!
//! A segment runs behind all that the pass holds. Going forward, its result is then moved to the front of that place and the rest
//! given up. On the way back it runs there again, and the sweep goes through its ops, before it is given up for good. Its ops are
//! kept in a list of their own, so that those of the next segment find boxes of their types in it.

use std::any::Any;

use super::{MAX_INPUTS, Node, Place, TensorEngine, TensorPass, Work};
use crate::ops::Identity;
use crate::{Element, Engine, Error, Result, Segment};

/// A [`Segment`] with its type hidden.
pub(super) trait Again<T>: Send {
    /// Runs it on the tensor `x`; the result is one that did not exist before.
    fn run<'a>(&self, pass: &mut TensorPass<'a, T>, x: usize) -> Result<usize>;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

pub(super) struct Hidden<S>(pub(super) S);

impl<T: Element, S: Segment> Again<T> for Hidden<S> {
    fn run<'a>(&self, pass: &mut TensorPass<'a, T>, x: usize) -> Result<usize> {
        let before = pass.engine.slots.len();
        let x = pass.engine.handle(x);
        let mut y = self.0.run(pass, x)?;
        let slot = pass.engine.slot(y)?;
        // A tensor that was there before, or a parameter, cannot be given up: its copy can.
        if slot < before || matches!(pass.engine.slots[slot].place, Place::Param(_)) {
            y = pass.apply(Identity, [y])?;
        }
        Ok(y.index)
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// How far the pass had come when a segment began.
pub(super) struct Start {
    slots: usize,
    pub(super) values: usize,
    saved: usize,
    pub(super) nodes: usize,
}

/// An error of a segment, which counts as one op: the node it names is the segment.
pub(super) fn inside(error: Error, segment: usize) -> Error {
    match error {
        Error::NonFinite { op, phase, .. } => Error::NonFinite {
            op,
            node: segment,
            phase,
        },
        other => other,
    }
}

impl<T: Element> TensorEngine<T> {
    /// Begins a segment, and lends out the nodes before it.
    pub(super) fn enter(&mut self) -> (Start, Vec<Node<T>>) {
        let start = Start {
            slots: self.slots.len(),
            values: self.used_values,
            saved: self.used_saved,
            nodes: self.used_nodes,
        };
        self.used_nodes = 0;
        self.segments += 1;
        let spare = std::mem::take(&mut self.spare_nodes);
        (start, std::mem::replace(&mut self.nodes, spare))
    }

    /// Ends it: everything is as it was at `start`.
    pub(super) fn leave(&mut self, start: &Start, nodes: Vec<Node<T>>) {
        self.slots.truncate(start.slots);
        for bound in &mut self.bound {
            bound.take_if(|slot| *slot >= start.slots);
        }
        self.used_values = start.values;
        self.used_saved = start.saved;
        self.used_nodes = start.nodes;
        self.segments -= 1;
        self.spare_nodes = std::mem::replace(&mut self.nodes, nodes);
    }

    /// Puts a segment behind the nodes of this pass, into the box of the pass before where the types agree.
    pub(super) fn push_segment<S: Segment>(
        &mut self,
        segment: Hidden<S>,
        input: usize,
        output: usize,
    ) {
        let mut inputs = [0; MAX_INPUTS];
        inputs[0] = input;
        if self.used_nodes == self.nodes.len() {
            self.nodes.push(Node {
                work: Work::Segment(None),
                inputs,
                arity: 1,
                output,
                saved: 0..0,
            });
        }
        let node = &mut self.nodes[self.used_nodes];
        (node.inputs, node.arity, node.output, node.saved) = (inputs, 1, output, 0..0);
        let known = match &mut node.work {
            Work::Segment(Some(again)) => again.as_any_mut().downcast_mut::<Hidden<S>>(),
            _ => None,
        };
        match known {
            Some(known) => *known = segment,
            None => node.work = Work::Segment(Some(Box::new(segment))),
        }
        self.used_nodes += 1;
    }
}

impl<T: Element> TensorPass<'_, T> {
    /// The way back through all nodes whose results have gradients.
    pub(super) fn sweep(&mut self, gradients: &mut [T]) -> Result<()> {
        for node in (0..self.engine.used_nodes).rev() {
            let engine = &mut *self.engine;
            let output = engine.nodes[node].output;
            let slot = engine.slots[output];
            if !slot.wants_gradient || slot.gradient.is_none() {
                continue;
            }
            if let Work::Segment(segment) = &mut engine.nodes[node].work {
                let segment = segment.take();
                let swept = self.sweep_again(node, segment.as_deref(), gradients);
                // Whatever happened within: the pass may be swept again.
                self.engine.nodes[node].work = Work::Segment(segment);
                swept?;
            } else {
                engine.run_backward(node, self.params.values(), gradients, self.context)?;
            }
            self.engine.free_gradient(output);
        }
        Ok(())
    }

    /// Runs a segment again, and the way back through it.
    fn sweep_again(
        &mut self,
        node: usize,
        segment: Option<&dyn Again<T>>,
        gradients: &mut [T],
    ) -> Result<()> {
        let Node { inputs, output, .. } = self.engine.nodes[node];
        let (start, nodes) = self.engine.enter();
        let done = segment.map_or(Ok(output), |segment| segment.run(self, inputs[0]));
        let swept = done.and_then(|result| {
            // The gradient moves to the result that is computed again, and its room is freed with it.
            self.engine.slots[result].gradient = self.engine.slots[output].gradient.take();
            self.sweep(gradients)
        });
        self.engine.leave(&start, nodes);
        swept.map_err(|error| inside(error, node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, ParamId, Params, Shape, Workspace, ops};
    use burtorch_core::Float;

    /// `tanh` so many times; with `fail` set, an op that must refuse its inputs comes last.
    struct Tanhs {
        times: usize,
        fail: bool,
    }

    impl Segment for Tanhs {
        fn run<E: Engine>(&self, e: &mut E, mut x: E::Tensor) -> Result<E::Tensor> {
            for _ in 0..self.times {
                x = e.apply(ops::Tanh, [x])?;
            }
            if self.fail {
                let other = e.constant(&[E::Elem::ONE; 2], Shape::new(&[2])?)?;
                x = e.apply(ops::Add, [x, other])?;
            }
            Ok(x)
        }
    }

    /// A parameter, whatever the input.
    struct Parameter(ParamId);

    impl Segment for Parameter {
        fn run<E: Engine>(&self, e: &mut E, _: E::Tensor) -> Result<E::Tensor> {
            e.param(self.0)
        }
    }

    fn params() -> (Params<f64>, ParamId) {
        let mut params = Params::new();
        let numbers: Vec<f64> = (0..100).map(|i| f64::from(i) / 100.0).collect();
        let shape = Shape::new(&[100]).expect("a shape");
        let id = params.add("x", shape, &numbers).expect("they fit");
        (params, id)
    }

    fn gradient(
        engine: &mut TensorEngine<f64>,
        blocks: usize,
        run: impl Fn(&mut TensorPass<'_, f64>, Tanhs, usize) -> Result<usize>,
    ) -> Result<Vec<f64>> {
        let (params, id) = params();
        let mut gradients = vec![0.0; params.len()];
        let mut pass = engine.bind(&params, Context::default());
        let mut x = pass.param(id)?.index;
        for _ in 0..blocks {
            let (times, fail) = (5, false);
            x = run(&mut pass, Tanhs { times, fail }, x)?;
        }
        let root = pass.engine.handle(x);
        pass.backward(root, &[1.0; 100], &mut gradients)?;
        Ok(gradients)
    }

    #[test]
    fn many_segments_hold_their_results_and_the_inside_of_one() -> Result<()> {
        let (mut plain, mut again) = (TensorEngine::new(), TensorEngine::new());
        let expected = gradient(&mut plain, 20, |pass, segment, x| {
            let x = pass.engine.handle(x);
            Ok(segment.run(pass, x)?.index)
        })?;
        for _ in 0..2 {
            let found = gradient(&mut again, 20, |pass, segment, x| {
                let x = pass.engine.handle(x);
                Ok(pass.recompute(segment, x)?.index)
            })?;
            assert_eq!(found, expected);
        }
        let (all, kept) = (plain.used_values, again.used_values);
        assert_eq!(kept, all / 5);
        assert!(again.bytes() < plain.bytes() / 2);
        Ok(())
    }

    /// The gradient through a segment that runs again on the way back, or else as the ops it is made of.
    fn gradient_through(
        engine: &mut TensorEngine<f64>,
        segment: impl Segment,
        again: bool,
    ) -> Result<Vec<f64>> {
        let (params, id) = params();
        let context = Context {
            key: 7,
            ..Context::default()
        };
        let mut gradients = vec![0.0; params.len()];
        let mut pass = engine.bind(&params, context);
        let x = pass.param(id)?;
        let y = match again {
            true => pass.recompute(segment, x)?,
            false => segment.run(&mut pass, x)?,
        };
        pass.backward(y, &[1.0; 100], &mut gradients)?;
        Ok(gradients)
    }

    #[test]
    fn another_segment_in_the_same_place_is_the_one_that_runs() -> Result<()> {
        let (mut plain, mut again) = (TensorEngine::new(), TensorEngine::new());
        for times in [1, 3, 2] {
            let segment = || Tanhs { times, fail: false };
            let expected = gradient_through(&mut plain, segment(), false)?;
            let found = gradient_through(&mut again, segment(), true)?;
            assert_eq!(found, expected, "{times} times");
        }
        Ok(())
    }

    /// Zeros half of its input.
    struct Dropped;

    impl Segment for Dropped {
        fn run<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
            let (probability, stream) = (0.5, 1);
            let dropout = ops::Dropout {
                probability,
                stream,
            };
            e.apply(dropout, [x])
        }
    }

    #[test]
    fn the_same_numbers_are_dropped_again() -> Result<()> {
        let mut engine = TensorEngine::new();
        let expected = gradient_through(&mut engine, Dropped, false)?;
        assert!(expected.contains(&0.0) && expected.contains(&2.0));
        assert_eq!(gradient_through(&mut engine, Dropped, true)?, expected);
        Ok(())
    }

    /// So many segments, each around the next one, which is also an input of what follows it.
    struct Nested(usize);

    impl Segment for Nested {
        fn run<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
            let Some(inner) = self.0.checked_sub(1) else {
                return Ok(x);
            };
            let y = e.recompute(Nested(inner), x)?;
            let z = e.apply(ops::Tanh, [y])?;
            e.apply(ops::Mul, [z, x])
        }
    }

    /// [`Nested`] without segments.
    struct Flat(usize);

    impl Segment for Flat {
        fn run<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
            let mut y = x;
            for _ in 0..self.0 {
                let z = e.apply(ops::Tanh, [y])?;
                y = e.apply(ops::Mul, [z, x])?;
            }
            Ok(y)
        }
    }

    #[test]
    fn segments_within_segments_run_again_too() -> Result<()> {
        let mut engine = TensorEngine::new();
        for depth in [1, 2, 4] {
            let expected = gradient_through(&mut engine, Flat(depth), false)?;
            let found = gradient_through(&mut engine, Nested(depth), true)?;
            let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-14;
            assert!(found.iter().zip(&expected).all(near), "{depth} deep");
        }
        Ok(())
    }

    #[test]
    fn a_parameter_as_the_result_gets_its_gradient_once() -> Result<()> {
        let (params, id) = params();
        let mut engine = TensorEngine::new();
        let mut gradients = vec![0.0; params.len()];
        let mut pass = engine.bind(&params, Context::default());
        let x = pass.constant(&[1.0], Shape::SCALAR)?;
        let y = pass.recompute(Parameter(id), x)?;
        let x = pass.param(id)?;
        let product = pass.apply(ops::Mul, [x, y])?;
        pass.backward(product, &[1.0; 100], &mut gradients)?;
        let twice: Vec<f64> = params.values().iter().map(|x| 2.0 * x).collect();
        assert_eq!(gradients, twice);
        Ok(())
    }

    /// A gradient too large for the middle of it, and then one that is not.
    struct Scales;

    impl Segment for Scales {
        fn run<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
            let [small, large] = [1e-300, 1e300].map(ops::Scale);
            let x = e.apply(small, [x])?;
            e.apply(large, [x])
        }
    }

    #[test]
    fn an_error_on_the_way_back_leaves_the_segment_there() -> Result<()> {
        let (params, id) = params();
        let mut engine = TensorEngine::new();
        let context = Context {
            find_non_finite: true,
            ..Context::default()
        };
        let mut pass = engine.bind(&params, context);
        let x = pass.param(id)?;
        let x = pass.apply(ops::Identity, [x])?;
        let y = pass.recompute(Scales, x)?;
        let mut gradients = vec![0.0; 100];
        let failed = pass.backward(y, &[1e300; 100], &mut gradients);
        let named = Err(Error::NonFinite {
            op: "scale",
            node: 1,
            phase: "backward",
        });
        assert_eq!(failed, named);
        gradients.fill(0.0);
        pass.backward(y, &[1.0; 100], &mut gradients)?;
        assert!(gradients.iter().all(|x| (x - 1.0).abs() < 1e-12));
        Ok(())
    }

    /// Begins a backward pass.
    struct Backward;

    impl Segment for Backward {
        fn run<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
            let y = e.apply(ops::Tanh, [x])?;
            let mut gradients = vec![E::Elem::ZERO; 100];
            e.backward(y, &[E::Elem::ONE; 100], &mut gradients)?;
            Ok(y)
        }
    }

    #[test]
    fn a_backward_pass_within_is_refused() -> Result<()> {
        let (params, id) = params();
        let mut engine = TensorEngine::new();
        let mut pass = engine.bind(&params, Context::default());
        let x = pass.param(id)?;
        let refused = pass.recompute(Backward, x).err();
        assert_eq!(refused, Some(Error::BackwardInSegment));
        // The pass goes on, and its own way back is none within a segment.
        let once = Tanhs {
            times: 1,
            fail: false,
        };
        let y = pass.recompute(once, x)?;
        pass.backward(y, &[1.0; 100], &mut vec![0.0; 100])
    }

    #[test]
    fn an_error_within_leaves_the_pass_as_it_was() -> Result<()> {
        let (params, id) = params();
        let mut engine = TensorEngine::new();
        let mut pass = engine.bind(&params, Context::default());
        let x = pass.param(id)?;
        let y = pass.apply(ops::Tanh, [x])?;
        let (times, fail) = (3, true);
        let refused = pass.recompute(Tanhs { times, fail }, y);
        assert!(matches!(refused, Err(Error::Mismatch { .. })));
        assert_eq!((pass.engine.slots.len(), pass.engine.used_nodes), (2, 1));
        let z = pass.recompute(Tanhs { times, fail: false }, y)?;
        let mut gradients = vec![0.0; 100];
        pass.backward(z, &[1.0; 100], &mut gradients)?;
        assert_eq!(gradients[0], 1.0);
        Ok(())
    }
}
