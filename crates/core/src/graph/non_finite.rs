//! Where infinities and NaN come from.

use std::fmt;
use std::panic::Location;

use crate::error::Error;
use crate::graph::{Graph, Node};
use crate::scalar::Scalar;

/// The two numbers that a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Its value.
    Value,
    /// Its gradient.
    Gradient,
}

/// What a graph knows about a node apart from its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedNode {
    /// Its number in the order of recording, from 1 on, as in drawings.
    pub number: usize,
    /// The op that made it.
    pub op: &'static str,
    /// Its label; empty if it has none.
    pub label: String,
    /// Where the op was called.
    pub location: &'static Location<'static>,
}

/// A value or a gradient that is infinite or NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct NonFinite<T> {
    /// Which of the two it is.
    pub quantity: Quantity,
    /// The number itself.
    pub number: T,
    /// The node it belongs to.
    pub node: RecordedNode,
    /// For a gradient: the op whose derivative made it so, which is one that has the node as argument. None if the sum of finite
    /// contributions overflowed, or if the gradient was handed to the node from outside.
    pub through: Option<RecordedNode>,
}

impl fmt::Display for RecordedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            number,
            op,
            label,
            location,
        } = self;
        write!(f, "node {number} (`{op}`")?;
        if !label.is_empty() {
            write!(f, ", labelled `{label}`")?;
        }
        write!(f, ", recorded at {location})")
    }
}

impl<T: fmt::Debug> fmt::Display for NonFinite<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quantity = match self.quantity {
            Quantity::Value => "value",
            Quantity::Gradient => "gradient",
        };
        let (node, number) = (&self.node, &self.number);
        write!(f, "the {quantity} of {node} is {number:?}")?;
        match &self.through {
            Some(op) => write!(f, "; it came through {op}"),
            None => Ok(()),
        }
    }
}

impl<T: fmt::Debug> std::error::Error for NonFinite<T> {}

/// The first value that is not finite when `f` is computed at `x`, or else the first gradient that is not finite on the way back.
///
/// It records `f` on a [`Graph`], so run it when a tape's result is not what it should be, on the same function and inputs.
///
/// ```
/// use burtorch_core::{Scalar, graph::find_non_finite};
///
/// let found = find_non_finite(|x| (x[0] - 1.0).ln() * x[1], &[1.0, 0.5])?.expect("ln 0");
/// assert_eq!((found.node.op, found.number), ("ln", f64::NEG_INFINITY));
/// assert_eq!(found.node.location.file(), file!());
///
/// let found = find_non_finite(|x| x[0].square().sqrt(), &[0.0])?.expect("the slope of a root at 0");
/// assert_eq!(found.node.op, "square"); // its gradient is infinite,
/// assert_eq!(found.through.expect("an op").op, "sqrt"); // because it is the argument of a root
/// assert_eq!(find_non_finite(|x| x[0].square().sqrt(), &[2.0])?, None);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// # Errors
///
/// The first error of recording.
#[track_caller]
pub fn find_non_finite<T, F>(f: F, x: &[T]) -> Result<Option<NonFinite<T>>, Error>
where
    T: Scalar,
    F: for<'g> FnOnce(&[Node<'g, T>]) -> Node<'g, T>,
{
    let graph = Graph::new();
    let y = f(&graph.vars(x));
    graph.check()?;
    if let Some(found) = graph.first_non_finite_value() {
        return Ok(Some(found));
    }
    y.backward()?;
    Ok(graph.first_non_finite_gradient())
}

impl<T: Scalar> Graph<T> {
    /// The first value, in the order of recording, that is infinite or NaN: where it all began.
    ///
    /// Constants count, and so do values that [`select`](Scalar::select) did not choose.
    pub fn first_non_finite_value(&self) -> Option<NonFinite<T>> {
        let notes = self.notes.borrow();
        let place = notes.iter().position(|note| !note.value.all_finite())?;
        Some(NonFinite {
            quantity: Quantity::Value,
            number: notes[place].value,
            node: self.described(place as u32 + 1),
            through: None,
        })
    }

    /// The first gradient that is infinite or NaN, in the order in which a backward pass comes to them: from the last node to the first.
    ///
    /// ```
    /// use burtorch_core::{Scalar, graph::Graph};
    ///
    /// let graph = Graph::new();
    /// let x = graph.var(0.0).label("x");
    /// (x.sqrt() * 3.0).backward()?;
    /// let found = graph.first_non_finite_gradient().expect("the slope of a root at 0");
    /// assert_eq!((found.node.label.as_str(), found.number), ("x", f64::INFINITY));
    /// println!("{found}");
    /// // the gradient of node 1 (`variable`, labelled `x`, recorded at src/main.rs:4:15) is inf; it came through
    /// // node 2 (`sqrt`, recorded at src/main.rs:5:4)
    /// # Ok::<(), burtorch_core::Error>(())
    /// ```
    pub fn first_non_finite_gradient(&self) -> Option<NonFinite<T>> {
        let gradient = |node: u32| self.tape.gradient_at(node);
        let node = self.numbers().rev().find(|&x| !gradient(x).all_finite())?;
        Some(NonFinite {
            quantity: Quantity::Gradient,
            number: gradient(node),
            node: self.described(node),
            through: self.source_of_gradient(node).map(|op| self.described(op)),
        })
    }

    /// The last node that has `node` as argument and hands it a gradient that is not finite.
    fn source_of_gradient(&self, node: u32) -> Option<u32> {
        let hands_over = |&later: &u32| {
            let gradient = self.tape.gradient_at(later);
            let partials = self.tape.partials_of(later);
            let arguments = self.tape.parents_of(later).into_iter().zip(partials);
            arguments
                .filter(|&(parent, _)| parent == node)
                .any(|(_, partial)| !partial.chain(gradient).all_finite())
        };
        self.numbers()
            .rev()
            .take_while(|&x| x > node)
            .find(hands_over)
    }

    fn numbers(&self) -> std::ops::RangeInclusive<u32> {
        1..=self.notes.borrow().len() as u32
    }

    fn described(&self, node: u32) -> RecordedNode {
        let note = &self.notes.borrow()[node as usize - 1];
        RecordedNode {
            number: node as usize,
            op: note.op,
            label: note.label.clone(),
            location: note.location,
        }
    }
}
