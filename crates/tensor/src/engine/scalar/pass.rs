//! One pass of the scalar engine: tensors are lists of handles.

use std::marker::PhantomData;
use std::ops::Range;

use burtorch_core::{NodeId, Tape, Var};

use super::{Memory, Variables};
use crate::error::{check_finite, check_len};
use crate::{Context, Element, Engine, Error, Op, ParamId, Params, Result, Shape, View};

/// Where a tensor's values and handles are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    shape: Shape,
    /// Number of the parameter it is.
    parameter: Option<usize>,
    /// Place of the first number among the results, or among the values of all parameters.
    start: usize,
}

impl Place {
    fn range(&self) -> Range<usize> {
        self.start..self.start + self.shape.len()
    }
}

/// Handle of a tensor of a [`ScalarPass`].
///
/// It borrows the engine as the pass does, so it cannot outlive the pass, and it knows the tape's address, by which
/// another engine refuses it.
///
/// ```compile_fail,E0499
/// use burtorch_tensor::{Context, Engine, Error, Params, Shape, ScalarEngine, Workspace, ops};
///
/// fn stale(params: &Params<f64>) -> Result<(), Error> {
///     let mut engine = ScalarEngine::new();
///     let x = engine.bind(params, Context::default()).constant(&[1.0], Shape::SCALAR)?;
///     engine.bind(params, Context::default()).apply(ops::Relu, [x])?;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScalarRef<'a> {
    tape: usize,
    index: usize,
    pass: PhantomData<&'a ()>,
}

/// One pass of the [`ScalarEngine`](super::ScalarEngine).
pub struct ScalarPass<'a, T: Element> {
    tape: &'a Tape<T>,
    /// Or why they could not be recorded.
    variables: Result<&'a Variables>,
    /// The handles of all results, one tensor after the other, and beside them, in the memory, their values.
    results: Vec<Var<'a, T>>,
    /// The handles of the parameters that an op reads.
    inputs: Vec<Var<'a, T>>,
    /// The handles an op makes.
    result: Vec<Var<'a, T>>,
    memory: &'a mut Memory<T>,
    params: &'a Params<T>,
    context: Context<'a>,
}

impl<T: Element> Drop for ScalarPass<'_, T> {
    fn drop(&mut self) {
        let [results, inputs, result] =
            [&mut self.results, &mut self.inputs, &mut self.result].map(std::mem::take);
        self.memory.results.put_back(results);
        self.memory.inputs.put_back(inputs);
        self.memory.result.put_back(result);
    }
}

/// An op of the pass, as the search for non-finite numbers wants to know it.
pub(super) struct Applied {
    name: &'static str,
    /// Empty unless that search is on.
    inputs: Vec<Place>,
    output: Place,
}

impl<'a, T: Element> ScalarPass<'a, T> {
    pub(super) fn new(
        tape: &'a Tape<T>,
        variables: Result<&'a Variables>,
        memory: &'a mut Memory<T>,
        params: &'a Params<T>,
        context: Context<'a>,
    ) -> Self {
        ScalarPass {
            tape,
            variables,
            results: memory.results.take(),
            inputs: memory.inputs.take(),
            result: memory.result.take(),
            memory,
            params,
            context,
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self.tape).addr()
    }

    fn add(&mut self, place: Place) -> ScalarRef<'a> {
        self.memory.tensors.push(place);
        ScalarRef {
            tape: self.address(),
            index: self.memory.tensors.len() - 1,
            pass: PhantomData,
        }
    }

    /// A tensor of the handles in `result`, which is empty then.
    fn push(&mut self, shape: Shape) -> ScalarRef<'a> {
        let start = self.results.len();
        let values = self.result.iter().map(|x| x.value());
        self.memory.values.extend(values);
        self.results.append(&mut self.result);
        self.add(Place {
            shape,
            parameter: None,
            start,
        })
    }

    fn place(&self, x: ScalarRef<'a>) -> Result<Place> {
        let place = self.memory.tensors.get(x.index);
        place
            .filter(|_| x.tape == self.address())
            .copied()
            .ok_or(Error::Foreign {
                what: "tensor",
                index: x.index,
                count: self.memory.tensors.len(),
            })
    }

    /// The first node of a parameter; none if it is empty.
    fn first_node(&self, parameter: usize) -> Option<NodeId> {
        self.variables.as_ref().ok()?.tensors.get(parameter)?.1
    }

    /// Makes the handles of all parameters among these tensors, with their values; where they are among the inputs, or the others among
    /// the results.
    fn fetch<const N: usize>(&mut self, places: [Place; N]) -> [Range<usize>; N] {
        self.inputs.clear();
        places.map(|place| {
            let Some(parameter) = place.parameter else {
                return place.range();
            };
            let start = self.inputs.len();
            if let Some(first) = self.first_node(parameter) {
                let values = &self.params.values()[place.range()];
                self.inputs.extend(self.tape.handles(first, values));
            }
            start..self.inputs.len()
        })
    }

    /// The handles of a tensor that was fetched.
    fn handles(&self, place: Place, range: Range<usize>) -> &[Var<'a, T>] {
        match place.parameter {
            Some(_) => &self.inputs[range],
            None => &self.results[range],
        }
    }

    /// Refuses the first op on the way back that made non-finite gradients of its inputs out of a finite one of its result.
    fn check_gradients(&mut self) -> Result<()> {
        for node in (0..self.memory.applied.len()).rev() {
            let Applied {
                name,
                ref inputs,
                output,
            } = self.memory.applied[node];
            let inputs = inputs.clone();
            let spoiled = inputs.into_iter().any(|place| self.is_bad(place));
            if spoiled && !self.is_bad(output) {
                return Err(Error::NonFinite {
                    op: name,
                    node,
                    phase: "backward",
                });
            }
        }
        Ok(())
    }

    /// Whether a gradient of a tensor is not finite.
    fn is_bad(&mut self, place: Place) -> bool {
        let [range] = self.fetch([place]);
        let mut gradients = self.handles(place, range).iter().map(|x| x.grad());
        gradients.any(|gradient| gradient.is_ok_and(|gradient| !gradient.is_finite()))
    }
}

impl<'a, T: Element> Engine for ScalarPass<'a, T> {
    type Elem = T;
    type Tensor = ScalarRef<'a>;

    fn param(&mut self, id: ParamId) -> Result<ScalarRef<'a>> {
        let entry = self.params.entry(id)?;
        if let Err(fault) = &self.variables {
            return Err(fault.clone());
        }
        if let Some(index) = self.memory.bound[id.index] {
            return Ok(ScalarRef {
                tape: self.address(),
                index,
                pass: PhantomData,
            });
        }
        let x = self.add(Place {
            shape: entry.shape,
            parameter: Some(id.index),
            start: entry.offset,
        });
        self.memory.bound[id.index] = Some(x.index);
        Ok(x)
    }

    fn constant(&mut self, data: &[T], shape: Shape) -> Result<ScalarRef<'a>> {
        check_len("constant", shape.len(), data.len())?;
        let tape = self.tape;
        self.result.clear();
        self.result.extend(data.iter().map(|&v| tape.constant(v)));
        Ok(self.push(shape))
    }

    fn apply<const N: usize, O: Op<N>>(
        &mut self,
        op: O,
        x: [ScalarRef<'a>; N],
    ) -> Result<ScalarRef<'a>> {
        let mut places = [Place {
            shape: Shape::SCALAR,
            parameter: None,
            start: 0,
        }; N];
        for (place, &x) in places.iter_mut().zip(&x) {
            *place = self.place(x)?;
        }
        let shape = op.shape(&self.context, places.map(|p| p.shape))?;
        let ranges = self.fetch(places);
        let mut result = std::mem::take(&mut self.result);
        result.clear();
        let mut ranges = ranges.into_iter();
        let views = places.map(|place| View {
            data: self.handles(place, ranges.next().unwrap_or_default()),
            shape: place.shape,
        });
        op.formula(&self.context, views, &mut result);
        debug_assert_eq!(
            result.len(),
            shape.len(),
            "{}: formula and shape rule disagree",
            O::NAME
        );
        let searching = self.context.find_non_finite;
        if searching {
            // A retained variable has a gradient to look at.
            result.iter_mut().for_each(|x| *x = x.retain());
        }
        self.result = result;
        let y = self.push(shape);
        self.memory.applied.push(Applied {
            name: O::NAME,
            inputs: if searching {
                places.to_vec()
            } else {
                Vec::new()
            },
            output: self.place(y)?,
        });
        if searching && !self.value(y).data.iter().all(|v| v.is_finite()) {
            return Err(Error::NonFinite {
                op: O::NAME,
                node: self.memory.applied.len() - 1,
                phase: "forward",
            });
        }
        Ok(y)
    }

    fn shape(&self, x: ScalarRef<'a>) -> Result<Shape> {
        Ok(self.place(x)?.shape)
    }

    fn value(&self, x: ScalarRef<'a>) -> View<'_, T> {
        assert_eq!(
            x.tape,
            self.address(),
            "a tensor handle is valid in the pass that made it"
        );
        let place = self.memory.tensors[x.index];
        let values = match place.parameter {
            Some(_) => self.params.values(),
            None => &self.memory.values,
        };
        View {
            data: &values[place.range()],
            shape: place.shape,
        }
    }

    fn backward(&mut self, root: ScalarRef<'a>, seed: &[T], gradients: &mut [T]) -> Result<()> {
        let place = self.place(root)?;
        check_len("seed of the root", place.shape.len(), seed.len())?;
        check_len("gradients", self.params.len(), gradients.len())?;
        if self.context.find_non_finite {
            check_finite("seed of the root", seed)?;
            check_finite("gradients", gradients)?;
        }
        self.tape.zero_grads();
        let [range] = self.fetch([place]);
        self.tape.backward(self.handles(place, range), seed)?;
        self.check_gradients()?;
        let bound = self.memory.bound.iter().enumerate();
        for (number, _) in bound.filter(|(_, bound)| bound.is_some()) {
            if let Some(first) = self.first_node(number) {
                let range = self.params.entries()[number].range();
                self.tape.add_grads(first, &mut gradients[range])?;
            }
        }
        Ok(())
    }

    fn training(&self) -> bool {
        self.context.training
    }
}
