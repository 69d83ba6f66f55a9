//! The exact engine: every op records its formula on the scalar tape, the granularity of the BurTorch paper.

use std::marker::PhantomData;

use burtorch_core::{Tape, Var};

use crate::error::{check_finite, check_len};
use crate::{Context, Element, Engine, Error, Op, ParamId, Params, Result, Shape, View, Workspace};

/// The memory of the scalar engine: a tape that is cleared, not freed, from pass to pass.
pub struct ScalarEngine<T: Element> {
    tape: Tape<T>,
    values: Vec<T>,
}

impl<T: Element> ScalarEngine<T> {
    /// An engine with an empty tape.
    #[must_use]
    pub fn new() -> Self {
        ScalarEngine {
            tape: Tape::new(),
            values: Vec::new(),
        }
    }

    /// Bytes held by the tape and by the results.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tape.bytes() + self.values.capacity() * size_of::<T>()
    }
}

impl<T: Element> Default for ScalarEngine<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Element> Workspace<T> for ScalarEngine<T> {
    type Pass<'a> = ScalarPass<'a, T>;

    fn bind<'a>(&'a mut self, params: &'a Params<T>, context: Context<'a>) -> ScalarPass<'a, T> {
        self.tape.clear();
        self.values.clear();
        ScalarPass {
            tape: &self.tape,
            values: &mut self.values,
            params,
            context,
            variables: Vec::new(),
            tensors: Vec::new(),
            bound: vec![None; params.entries().len()],
            result: Vec::new(),
            applied: Vec::new(),
        }
    }
}

/// Where a tensor's variables are.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: usize,
    shape: Shape,
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

/// One pass of the [`ScalarEngine`].
pub struct ScalarPass<'a, T: Element> {
    tape: &'a Tape<T>,
    /// The variables of all tensors, one after the other, and beside them their values.
    variables: Vec<Var<'a, T>>,
    values: &'a mut Vec<T>,
    tensors: Vec<Place>,
    bound: Vec<Option<ScalarRef<'a>>>,
    params: &'a Params<T>,
    context: Context<'a>,
    result: Vec<Var<'a, T>>,
    applied: Vec<Applied>,
}

/// An op of the pass, as the search for non-finite numbers wants to know it.
struct Applied {
    name: &'static str,
    /// Empty unless that search is on.
    inputs: Vec<Place>,
    output: Place,
}

impl<'a, T: Element> ScalarPass<'a, T> {
    fn address(&self) -> usize {
        std::ptr::from_ref(self.tape).addr()
    }

    fn push(&mut self, shape: Shape, variables: impl Iterator<Item = Var<'a, T>>) -> ScalarRef<'a> {
        let start = self.variables.len();
        self.variables.extend(variables);
        self.values
            .extend(self.variables[start..].iter().map(|v| v.value()));
        self.tensors.push(Place { start, shape });
        ScalarRef {
            tape: self.address(),
            index: self.tensors.len() - 1,
            pass: PhantomData,
        }
    }

    fn place(&self, x: ScalarRef<'a>) -> Result<Place> {
        let place = self.tensors.get(x.index);
        place
            .filter(|_| x.tape == self.address())
            .copied()
            .ok_or(Error::Foreign {
                what: "tensor",
                index: x.index,
                count: self.tensors.len(),
            })
    }

    /// Refuses the first op on the way back that made non-finite gradients of its inputs out of a finite one of its result.
    fn check_gradients(&self) -> Result<()> {
        let bad = |&place: &Place| {
            let mut gradients = self.variables(place).iter().map(|v| v.grad());
            gradients.any(|g| g.is_ok_and(|g| !g.is_finite()))
        };
        for (node, op) in self.applied.iter().enumerate().rev() {
            if op.inputs.iter().any(bad) && !bad(&op.output) {
                return Err(Error::NonFinite {
                    op: op.name,
                    node,
                    phase: "backward",
                });
            }
        }
        Ok(())
    }

    fn variables(&self, place: Place) -> &[Var<'a, T>] {
        &self.variables[place.start..place.start + place.shape.len()]
    }
}

impl<'a, T: Element> Engine for ScalarPass<'a, T> {
    type Elem = T;
    type Tensor = ScalarRef<'a>;

    fn param(&mut self, id: ParamId) -> Result<ScalarRef<'a>> {
        let entry = self.params.entry(id)?;
        if let Some(bound) = self.bound[id.index] {
            return Ok(bound);
        }
        let (tape, params) = (self.tape, self.params);
        let x = self.push(
            entry.shape,
            params.values()[entry.range()].iter().map(|&v| tape.var(v)),
        );
        self.bound[id.index] = Some(x);
        Ok(x)
    }

    fn constant(&mut self, data: &[T], shape: Shape) -> Result<ScalarRef<'a>> {
        check_len("constant", shape.len(), data.len())?;
        let tape = self.tape;
        Ok(self.push(shape, data.iter().map(|&v| tape.constant(v))))
    }

    fn apply<const N: usize, O: Op<N>>(
        &mut self,
        op: O,
        x: [ScalarRef<'a>; N],
    ) -> Result<ScalarRef<'a>> {
        let mut places = [Place {
            start: 0,
            shape: Shape::SCALAR,
        }; N];
        for (place, &x) in places.iter_mut().zip(&x) {
            *place = self.place(x)?;
        }
        let shape = op.shape(&self.context, places.map(|p| p.shape))?;
        let mut result = std::mem::take(&mut self.result);
        result.clear();
        let views = places.map(|p| View {
            data: self.variables(p),
            shape: p.shape,
        });
        op.formula(&self.context, views, &mut result);
        debug_assert_eq!(
            result.len(),
            shape.len(),
            "{}: formula and shape rule disagree",
            O::NAME
        );
        let searching = self.context.find_non_finite;
        // A retained variable has a gradient to look at.
        let y = self.push(
            shape,
            result
                .drain(..)
                .map(|v| if searching { v.retain() } else { v }),
        );
        self.result = result;
        self.applied.push(Applied {
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
                node: self.applied.len() - 1,
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
        let Place { start, shape } = self.tensors[x.index];
        View {
            data: &self.values[start..start + shape.len()],
            shape,
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
        self.tape.backward(self.variables(place), seed)?;
        self.check_gradients()?;
        for (entry, bound) in self.params.entries().iter().zip(&self.bound) {
            if let Some(x) = bound {
                let first = self.variables[self.tensors[x.index].start].id()?;
                self.tape.add_grads(first, &mut gradients[entry.range()])?;
            }
        }
        Ok(())
    }

    fn training(&self) -> bool {
        self.context.training
    }
}
