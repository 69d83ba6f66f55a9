//! The fast engine: every op runs its kernels, in an arena that is kept from pass to pass.
//!
//! A pass fills two flat buffers from the front: results, and what kernels keep for backward. An op's inputs lie before its
//! result, so a split at the result's start separates what is read from what is written and no unsafe code is needed.
//! Gradients of results lie in a third buffer, whose room is used again once the sweep is past a result. Kernels are kept too: a pass that runs the same ops as the one before stores into the boxes
//! that are there, so that from the second pass on nothing is allocated.

mod room;
mod segment;

use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;

use crate::buffer::grow;
use crate::error::{check_finite, check_len};
use crate::{
    Context, Element, Engine, Error, Op, ParamId, Params, Result, Run, Segment, Shape, View,
    Workspace,
};
use room::Room;
use segment::{Again, Hidden, inside};

/// The largest number of inputs of one op.
const MAX_INPUTS: usize = 4;
/// Results start at multiples of this many numbers: a cache line of f32.
const ALIGN: usize = 16;

/// Handle of a tensor of a [`TensorPass`].
///
/// It borrows the engine as the pass does, so it cannot outlive the pass, and it knows the engine's address, by which
/// another engine refuses it.
///
/// ```compile_fail,E0499
/// use burtorch_tensor::{Context, Engine, Error, Params, Shape, TensorEngine, Workspace, ops};
///
/// fn stale(params: &Params<f64>) -> Result<(), Error> {
///     let mut engine = TensorEngine::new();
///     let x = engine.bind(params, Context::default()).constant(&[1.0], Shape::SCALAR)?;
///     engine.bind(params, Context::default()).apply(ops::Relu, [x])?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorRef<'a> {
    engine: usize,
    index: usize,
    pass: PhantomData<&'a ()>,
}

/// Where a tensor's numbers are.
#[derive(Debug, Clone, Copy)]
enum Place {
    Param(usize),
    Arena(usize),
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    place: Place,
    shape: Shape,
    /// Whether a parameter lies behind it.
    wants_gradient: bool,
    /// Where its gradient begins, from the first op that the sweep back finds reading it to the op that made it.
    gradient: Option<usize>,
}

impl Slot {
    fn arena_range(&self) -> Range<usize> {
        match self.place {
            Place::Arena(start) => start..start + self.shape.len(),
            Place::Param(_) => 0..0,
        }
    }

    fn param_range(&self) -> Range<usize> {
        match self.place {
            Place::Param(start) => start..start + self.shape.len(),
            Place::Arena(_) => 0..0,
        }
    }

    fn gradient_range(&self) -> Range<usize> {
        self.gradient
            .map_or(0..0, |start| start..start + self.shape.len())
    }
}

/// An [`Op`] with its types hidden.
trait Kernel<T>: Send {
    fn name(&self) -> &'static str;
    fn forward(&self, run: &mut Run<'_, T>, x: &[View<'_, T>], y: &mut [T], saved: &mut [T]);
    fn backward(
        &self,
        run: &mut Run<'_, T>,
        x: &[View<'_, T>],
        result: Finished<'_, T>,
        dx: &mut [Option<&mut [T]>],
    );
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// What forward left behind, and the gradient that arrived at it.
struct Finished<'a, T> {
    y: &'a [T],
    saved: &'a [T],
    dy: &'a [T],
}

struct Bound<O, const N: usize>(O);

impl<T: Element, O: Op<N>, const N: usize> Kernel<T> for Bound<O, N> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn forward(&self, run: &mut Run<'_, T>, x: &[View<'_, T>], y: &mut [T], saved: &mut [T]) {
        self.0.forward(run, std::array::from_fn(|i| x[i]), y, saved);
    }

    fn backward(
        &self,
        run: &mut Run<'_, T>,
        x: &[View<'_, T>],
        result: Finished<'_, T>,
        dx: &mut [Option<&mut [T]>],
    ) {
        let x = std::array::from_fn(|i| x[i]);
        let dx = std::array::from_fn(|i| dx[i].take());
        self.0
            .backward(run, x, result.y, result.saved, result.dy, dx);
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// What made a result.
enum Work<T> {
    Op(Box<dyn Kernel<T>>),
    /// A part of the model whose own results are forgotten; it is absent while it runs again.
    Segment(Option<Box<dyn Again<T>>>),
}

impl<T> Work<T> {
    /// The op.
    ///
    /// # Panics
    /// For a segment, which the sweep takes another way.
    fn op(&self) -> &dyn Kernel<T> {
        match self {
            Work::Op(kernel) => kernel.as_ref(),
            Work::Segment(_) => unreachable!("a segment has no kernel"),
        }
    }
}

struct Node<T> {
    work: Work<T>,
    inputs: [usize; MAX_INPUTS],
    arity: usize,
    output: usize,
    saved: Range<usize>,
}

/// The memory of the tensor engine.
pub struct TensorEngine<T> {
    slots: Vec<Slot>,
    /// The slot of each parameter that the pass has used.
    bound: Vec<Option<usize>>,
    /// Nodes of this pass, then left-overs of the pass before that wait for reuse.
    nodes: Vec<Node<T>>,
    used_nodes: usize,
    /// Segments that are running, one within the other.
    segments: usize,
    /// Memory for the nodes of a segment while it runs.
    spare_nodes: Vec<Node<T>>,
    values: Vec<T>,
    used_values: usize,
    saved: Vec<T>,
    used_saved: usize,
    gradients: Vec<T>,
    room: Room,
    /// Working memory of the kernels, as large as the most demanding op of this pass or of one before asked.
    scratch: Vec<T>,
}

impl<T: Element> TensorEngine<T> {
    /// An engine without memory; the first pass allocates what it needs.
    #[must_use]
    pub fn new() -> Self {
        TensorEngine {
            slots: Vec::new(),
            bound: Vec::new(),
            nodes: Vec::new(),
            used_nodes: 0,
            segments: 0,
            spare_nodes: Vec::new(),
            values: Vec::new(),
            used_values: 0,
            saved: Vec::new(),
            used_saved: 0,
            gradients: Vec::new(),
            room: Room::default(),
            scratch: Vec::new(),
        }
    }

    /// Bytes held for results, kept numbers, gradients of results and working memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let buffers = [&self.values, &self.saved, &self.gradients, &self.scratch];
        buffers.map(Vec::capacity).iter().sum::<usize>() * size_of::<T>()
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn handle<'a>(&self, index: usize) -> TensorRef<'a> {
        TensorRef {
            engine: self.address(),
            index,
            pass: PhantomData,
        }
    }

    fn slot(&self, x: TensorRef<'_>) -> Result<usize> {
        if x.engine == self.address() && x.index < self.slots.len() {
            Ok(x.index)
        } else {
            Err(Error::Foreign {
                what: "tensor",
                index: x.index,
                count: self.slots.len(),
            })
        }
    }

    fn push_slot<'a>(&mut self, slot: Slot) -> TensorRef<'a> {
        self.slots.push(slot);
        self.handle(self.slots.len() - 1)
    }

    /// Room for a result.
    fn reserve_value(&mut self, len: usize) -> Result<usize> {
        Ok(reserve(&mut self.values, &mut self.used_values, len)?.start)
    }

    /// Room for what a kernel keeps.
    fn reserve_saved(&mut self, len: usize) -> Result<Range<usize>> {
        reserve(&mut self.saved, &mut self.used_saved, len)
    }

    /// Puts an op behind the nodes of this pass, into the box of the pass before where the types agree.
    fn push_node<const N: usize, O: Op<N>>(
        &mut self,
        op: O,
        x: [usize; N],
        output: usize,
        saved: Range<usize>,
    ) {
        let mut inputs = [0; MAX_INPUTS];
        inputs[..N].copy_from_slice(&x);
        match self.nodes.get_mut(self.used_nodes) {
            Some(node) => {
                (node.inputs, node.arity, node.output, node.saved) = (inputs, N, output, saved);
                let kernel = match &mut node.work {
                    Work::Op(kernel) => kernel.as_any_mut().downcast_mut::<Bound<O, N>>(),
                    Work::Segment(_) => None,
                };
                match kernel {
                    Some(kernel) => kernel.0 = op,
                    None => node.work = Work::Op(Box::new(Bound(op))),
                }
            }
            None => self.nodes.push(Node {
                work: Work::Op(Box::new(Bound(op))),
                inputs,
                arity: N,
                output,
                saved,
            }),
        }
        self.used_nodes += 1;
    }

    fn run_forward(&mut self, node: usize, params: &[T], context: Context<'_>) {
        self.spoil_scratch();
        let node = &self.nodes[node];
        let output = self.slots[node.output].arena_range();
        let (before, after) = self.values.split_at_mut(output.start);
        let x = views(&self.slots, &node.inputs, params, before);
        let mut run = Run {
            context,
            scratch: &mut self.scratch,
        };
        node.work.op().forward(
            &mut run,
            &x[..node.arity],
            &mut after[..output.len()],
            &mut self.saved[node.saved.clone()],
        );
    }

    /// In the crate's own tests, NaN in the working memory, so that a kernel that counts on what is there shows.
    fn spoil_scratch(&mut self) {
        if cfg!(test) {
            self.scratch.fill(T::NAN);
        }
    }

    /// Room for a gradient of a result that has none yet, filled with zeros.
    fn reserve_gradient(&mut self, slot: usize) -> Result<()> {
        let found = &mut self.slots[slot];
        if found.gradient.is_some() || matches!(found.place, Place::Param(_)) {
            return Ok(());
        }
        let range = self.room.take(found.shape.len().next_multiple_of(ALIGN));
        found.gradient = Some(range.start);
        grow(&mut self.gradients, range.end)?;
        self.gradients[range].fill(T::ZERO);
        Ok(())
    }

    /// Gives the room of a gradient back that nobody needs any more.
    fn free_gradient(&mut self, slot: usize) {
        let slot = &mut self.slots[slot];
        if let Some(start) = slot.gradient.take() {
            let len = slot.shape.len().next_multiple_of(ALIGN);
            self.room.give_back(start..start + len);
        }
    }

    /// Runs one node's backward kernel.
    fn run_backward(
        &mut self,
        node: usize,
        params: &[T],
        gradients: &mut [T],
        context: Context<'_>,
    ) -> Result<()> {
        let Node { inputs, arity, .. } = self.nodes[node];
        let wanted: [bool; MAX_INPUTS] =
            std::array::from_fn(|i| i < arity && self.slots[inputs[i]].wants_gradient);
        for i in (0..arity).filter(|&i| wanted[i]) {
            self.reserve_gradient(inputs[i])?;
        }
        let ranges = |of: fn(&Slot) -> Range<usize>| {
            std::array::from_fn::<_, MAX_INPUTS, _>(|i| {
                if wanted[i] {
                    of(&self.slots[inputs[i]])
                } else {
                    0..0
                }
            })
        };
        let in_params = ranges(Slot::param_range);
        let [a, b, c, d] = ranges(Slot::gradient_range);
        let node_number = node;
        self.spoil_scratch();
        let node = &self.nodes[node];
        let (kernel, output) = (node.work.op(), &self.slots[node.output]);

        let [a, b, c, d, dy] = self
            .gradients
            .get_disjoint_mut([a, b, c, d, output.gradient_range()])
            .expect("gradients of a pass do not overlap");
        let flat = gradients
            .get_disjoint_mut(in_params.clone())
            .expect("parameters do not overlap");
        let mut dx = [const { None }; MAX_INPUTS];
        for (i, (arena, flat)) in [a, b, c, d].into_iter().zip(flat).enumerate() {
            dx[i] = match self.slots[inputs[i]].place {
                _ if !wanted[i] => None,
                Place::Arena(_) => Some(arena),
                Place::Param(_) => Some(flat),
            };
        }
        let x = views(&self.slots, &inputs, params, &self.values);
        let result = Finished {
            y: &self.values[output.arena_range()],
            saved: &self.saved[node.saved.clone()],
            dy,
        };
        let mut run = Run {
            context,
            scratch: &mut self.scratch,
        };
        kernel.backward(&mut run, &x[..node.arity], result, &mut dx[..node.arity]);

        let finite = |part: &[T]| part.iter().all(|g| g.is_finite());
        for i in (0..arity).filter(|&i| context.find_non_finite && wanted[i]) {
            let arena = &self.gradients[self.slots[inputs[i]].gradient_range()];
            if !(finite(arena) && finite(&gradients[in_params[i].clone()])) {
                return Err(Error::NonFinite {
                    op: kernel.name(),
                    node: node_number,
                    phase: "backward",
                });
            }
        }
        Ok(())
    }
}

impl<T: Element> Default for TensorEngine<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The next `len` numbers of a buffer that is used from the front and grows.
fn reserve<T: Element>(buffer: &mut Vec<T>, used: &mut usize, len: usize) -> Result<Range<usize>> {
    let start = *used;
    let end = (start + len).next_multiple_of(ALIGN);
    grow(buffer, end)?;
    *used = end;
    Ok(start..start + len)
}

/// The tensors with these slots; the unused rest repeats the first.
fn views<'a, T>(
    slots: &[Slot],
    inputs: &[usize; MAX_INPUTS],
    params: &'a [T],
    values: &'a [T],
) -> [View<'a, T>; MAX_INPUTS] {
    std::array::from_fn(|i| view(&slots[inputs[i]], params, values))
}

fn view<'a, T>(slot: &Slot, params: &'a [T], values: &'a [T]) -> View<'a, T> {
    let data = match slot.place {
        Place::Param(_) => &params[slot.param_range()],
        Place::Arena(_) => &values[slot.arena_range()],
    };
    View {
        data,
        shape: slot.shape,
    }
}

/// One pass of the [`TensorEngine`].
pub struct TensorPass<'a, T> {
    engine: &'a mut TensorEngine<T>,
    params: &'a Params<T>,
    context: Context<'a>,
}

impl<T: Element> Workspace<T> for TensorEngine<T> {
    type Pass<'a> = TensorPass<'a, T>;

    fn bind<'a>(&'a mut self, params: &'a Params<T>, context: Context<'a>) -> TensorPass<'a, T> {
        self.slots.clear();
        self.bound.clear();
        self.bound.resize(params.entries().len(), None);
        (self.used_nodes, self.used_values, self.used_saved) = (0, 0, 0);
        self.segments = 0;
        TensorPass {
            engine: self,
            params,
            context,
        }
    }
}

impl<'a, T: Element> Engine for TensorPass<'a, T> {
    type Elem = T;
    type Tensor = TensorRef<'a>;

    fn param(&mut self, id: ParamId) -> Result<TensorRef<'a>> {
        let entry = self.params.entry(id)?;
        if let Some(index) = self.engine.bound[id.index] {
            return Ok(self.engine.handle(index));
        }
        let place = Place::Param(entry.offset);
        let x = self.engine.push_slot(Slot {
            place,
            shape: entry.shape,
            wants_gradient: true,
            gradient: None,
        });
        self.engine.bound[id.index] = Some(x.index);
        Ok(x)
    }

    fn constant(&mut self, data: &[T], shape: Shape) -> Result<TensorRef<'a>> {
        check_len("constant", shape.len(), data.len())?;
        let start = self.engine.reserve_value(data.len())?;
        self.engine.values[start..start + data.len()].copy_from_slice(data);
        let place = Place::Arena(start);
        Ok(self.engine.push_slot(Slot {
            place,
            shape,
            wants_gradient: false,
            gradient: None,
        }))
    }

    fn apply<const N: usize, O: Op<N>>(
        &mut self,
        op: O,
        mut x: [TensorRef<'a>; N],
    ) -> Result<TensorRef<'a>> {
        const { assert!(N >= 1 && N <= MAX_INPUTS, "an op has one to four inputs") };
        // Kernels write the gradients of their inputs side by side, so one tensor used twice is read through a copy.
        for i in 1..N {
            if x[..i].contains(&x[i]) {
                x[i] = self.apply(crate::ops::Identity, [x[i]])?;
            }
        }
        let engine = &mut *self.engine;
        let mut inputs = [0; N];
        for (slot, &x) in inputs.iter_mut().zip(&x) {
            *slot = engine.slot(x)?;
        }
        let shapes = inputs.map(|i| engine.slots[i].shape);
        let shape = op.shape(&self.context, shapes)?;
        grow(&mut engine.scratch, op.scratch(shapes))?;
        let saved = engine.reserve_saved(op.saved(shapes))?;
        let place = Place::Arena(engine.reserve_value(shape.len())?);
        let wants_gradient = inputs.iter().any(|&i| engine.slots[i].wants_gradient);
        let y = engine.push_slot(Slot {
            place,
            shape,
            wants_gradient,
            gradient: None,
        });
        let node = engine.used_nodes;
        engine.push_node(op, inputs, y.index, saved);
        engine.run_forward(node, self.params.values(), self.context);
        if self.context.find_non_finite && !self.value(y).data.iter().all(|v| v.is_finite()) {
            return Err(Error::NonFinite {
                op: O::NAME,
                node,
                phase: "forward",
            });
        }
        Ok(y)
    }

    fn recompute<S: Segment>(&mut self, segment: S, x: TensorRef<'a>) -> Result<TensorRef<'a>> {
        let input = self.engine.slot(x)?;
        let segment = Hidden(segment);
        let (start, nodes) = self.engine.enter();
        let done = segment.run(self, input).map_err(|e| inside(e, start.nodes));
        let engine = &mut *self.engine;
        let result = done.map(|y| engine.slots[y]);
        if let Ok(result) = &result {
            engine
                .values
                .copy_within(result.arena_range(), start.values);
        }
        engine.leave(&start, nodes);
        let result = result?;
        let place = Place::Arena(engine.reserve_value(result.shape.len())?);
        let y = engine.push_slot(Slot { place, ..result });
        engine.push_segment(segment, input, y.index);
        Ok(y)
    }

    fn shape(&self, x: TensorRef<'a>) -> Result<Shape> {
        Ok(self.engine.slots[self.engine.slot(x)?].shape)
    }

    fn value(&self, x: TensorRef<'a>) -> View<'_, T> {
        assert_eq!(
            x.engine,
            self.engine.address(),
            "a tensor handle is valid in the pass that made it"
        );
        view(
            &self.engine.slots[x.index],
            self.params.values(),
            &self.engine.values,
        )
    }

    fn backward(&mut self, root: TensorRef<'a>, seed: &[T], gradients: &mut [T]) -> Result<()> {
        let engine = &mut *self.engine;
        if engine.segments > 0 {
            return Err(Error::BackwardInSegment);
        }
        let root = engine.slot(root)?;
        let slot = engine.slots[root];
        check_len("seed of the root", slot.shape.len(), seed.len())?;
        check_len("gradients", self.params.len(), gradients.len())?;
        if self.context.find_non_finite {
            check_finite("seed of the root", seed)?;
            check_finite("gradients", gradients)?;
        }
        if let Place::Param(_) = slot.place {
            gradients[slot.param_range()]
                .iter_mut()
                .zip(seed)
                .for_each(|(g, &s)| *g += s);
            return Ok(());
        }
        engine.room.clear();
        engine.slots.iter_mut().for_each(|s| s.gradient = None);
        engine.reserve_gradient(root)?;
        engine.gradients[engine.slots[root].gradient_range()].copy_from_slice(seed);
        self.sweep(gradients)
    }

    fn training(&self) -> bool {
        self.context.training
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burtorch_core::Scalar;

    #[test]
    fn more_than_any_memory_is_an_error_and_changes_nothing() {
        let (mut buffer, mut used) = (vec![1.0f64; 16], 16);
        let found = reserve(&mut buffer, &mut used, 1 << 56);
        assert!(matches!(found, Err(Error::OutOfMemory { .. })));
        assert_eq!((buffer.len(), used), (16, 16));
    }

    /// Asks for more working memory than there is.
    #[derive(Clone)]
    struct Greedy;

    impl Op<1> for Greedy {
        const NAME: &'static str = "greedy";

        fn shape(&self, _: &Context<'_>, [x]: [Shape; 1]) -> Result<Shape> {
            Ok(x)
        }

        fn scratch(&self, _: [Shape; 1]) -> usize {
            1 << 56
        }

        fn formula<S: Scalar>(&self, _: &Context<'_>, [x]: [View<'_, S>; 1], y: &mut Vec<S>) {
            y.extend_from_slice(x.data);
        }

        fn forward<E: Element>(
            &self,
            _: &mut Run<'_, E>,
            _: [View<'_, E>; 1],
            _: &mut [E],
            _: &mut [E],
        ) {
            unreachable!("it was refused");
        }

        fn backward<E: Element>(
            &self,
            _: &mut Run<'_, E>,
            _: [View<'_, E>; 1],
            _: &[E],
            _: &[E],
            _: &[E],
            _: [Option<&mut [E]>; 1],
        ) {
            unreachable!("it was refused");
        }
    }

    #[test]
    fn an_op_whose_working_memory_is_refused_is_not_run() -> Result<()> {
        let mut engine = TensorEngine::<f64>::new();
        let params = Params::new();
        let mut pass = engine.bind(&params, Context::default());
        let x = pass.constant(&[2.0], Shape::SCALAR)?;
        let refused = pass.apply(Greedy, [x]);
        assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
        let y = pass.apply(crate::ops::Identity, [x])?;
        assert_eq!(pass.value(y).data, [2.0]);
        Ok(())
    }
}
