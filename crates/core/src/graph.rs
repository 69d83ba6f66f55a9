//! A graph that remembers everything, for looking at: every intermediate has its own node, op, value, gradient and label.
//! Choices (`max`, `min`, `select`) are no ops: they give back the node they chose.
//!
//! ```
//! use burtorch_core::{Scalar, graph::Graph};
//!
//! let graph = Graph::new();
//! let (w, x) = (graph.var(2.0).label("w"), graph.var(-3.0).label("x"));
//! let y = (w * x + 1.0).relu().label("y");
//! y.backward()?;
//! assert_eq!((y.value(), w.grad()?), (0.0, 0.0));
//! assert!(graph.draw()?.starts_with("digraph"));
//! # Ok::<(), burtorch_core::Error>(())
//! ```

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::panic::Location;

use crate::error::Error;
use crate::float::Float;
use crate::lanes::Work;
use crate::ops::{binary_rows, constant, operator_rows, partial, reduction_rows, unary_rows};
use crate::record::{
    Reduction, as_work, recorded_binary, recorded_operators, recorded_reduction, recorded_scalar,
    recorded_unary, reductions,
};
use crate::scalar::{Number, Scalar};
use crate::tape::{CONSTANT, Tape};
use crate::var::Var;

mod non_finite;

pub use non_finite::{NonFinite, Quantity, RecordedNode, find_non_finite};

/// A recorded computation to be drawn and inspected. Slower and larger than a [`Tape`], which is what it keeps its slopes on.
#[derive(Debug, Default)]
pub struct Graph<T: Scalar> {
    tape: Tape<T>,
    /// One for each node of the tape but the first, which stands for all constants there; here each has its own.
    notes: RefCell<Vec<Note<T>>>,
}

/// What a tape does not know about a node.
#[derive(Debug)]
struct Note<T> {
    op: &'static str,
    value: T,
    label: String,
    /// Where the op was called.
    location: &'static Location<'static>,
}

/// A value of a [`Graph`].
pub struct Node<'g, T: Scalar> {
    /// None for a constant that has met no graph yet.
    graph: Option<&'g Graph<T>>,
    value: T,
    node: u32,
}

impl<T: Scalar> Clone for Node<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Scalar> Copy for Node<'_, T> {}

impl<T: Scalar> fmt::Debug for Node<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({:?}, number {})", self.value, self.node)
    }
}

impl<T: Scalar> Graph<T> {
    /// An empty graph.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tape: Tape::new(),
            notes: RefCell::new(Vec::new()),
        }
    }

    /// A new variable.
    #[track_caller]
    pub fn var(&self, value: T) -> Node<'_, T> {
        self.leaf("variable", value, Location::caller())
    }

    /// New variables.
    #[track_caller]
    pub fn vars(&self, values: &[T]) -> Vec<Node<'_, T>> {
        let location = Location::caller();
        let variables = values.iter();
        variables
            .map(|&value| self.leaf("variable", value, location))
            .collect()
    }

    /// A constant. Plain numbers become constants by themselves where they are used.
    #[track_caller]
    pub fn constant(&self, value: T) -> Node<'_, T> {
        self.leaf("constant", value, Location::caller())
    }

    /// Number of nodes, constants included.
    pub fn len(&self) -> usize {
        self.tape.len()
    }

    /// Whether nothing has been recorded.
    pub fn is_empty(&self) -> bool {
        self.tape.is_empty()
    }

    /// The values of all nodes, in the order of recording.
    pub fn values(&self) -> Vec<T> {
        self.notes.borrow().iter().map(|note| note.value).collect()
    }

    /// The gradients of all nodes, in the order of recording.
    ///
    /// # Errors
    ///
    /// The first error of recording.
    pub fn grads(&self) -> Result<Vec<T>, Error> {
        self.tape.grads()
    }

    /// Sets all gradients to 0.
    pub fn zero_grads(&self) {
        self.tape.zero_grads();
    }

    /// Whether everything recorded so far is sound.
    ///
    /// # Errors
    ///
    /// The first error of recording.
    pub fn check(&self) -> Result<(), Error> {
        self.tape.check()
    }

    /// The graph in the language DOT: a box for each node with its label, op, value and gradient, an arrow to it from each argument.
    /// `dot -Tsvg` makes a picture of it.
    ///
    /// # Errors
    ///
    /// The first error of recording.
    pub fn draw(&self) -> Result<String, Error> {
        self.check()?;
        let mut dot = String::from("digraph {\n  rankdir=LR;\n  node [shape=box];\n");
        for (note, node) in self.notes.borrow().iter().zip(1..) {
            dot.push_str(&self.draw_node(note, node));
        }
        dot.push_str("}\n");
        Ok(dot)
    }

    fn draw_node(&self, note: &Note<T>, node: u32) -> String {
        let name = if note.label.is_empty() {
            String::new()
        } else {
            format!("{}\\n", escaped(&note.label))
        };
        let (value, gradient) = (note.value.primal(), self.tape.gradient_at(node).primal());
        let mut text = format!(
            "  n{node} [label=\"{name}{}\\nvalue {value:.4}\\ngradient {gradient:.4}\"];\n",
            note.op
        );
        for parent in self.tape.parents_of(node) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  n{parent} -> n{node};");
        }
        text
    }

    /// A node without arguments.
    fn leaf(
        &self,
        op: &'static str,
        value: T,
        location: &'static Location<'static>,
    ) -> Node<'_, T> {
        self.note(op, value, location, self.tape.record([]))
    }

    /// Adds what the graph shows of a node that the tape has just recorded, if it has.
    fn note(
        &self,
        op: &'static str,
        value: T,
        location: &'static Location<'static>,
        (node, fits): (u32, bool),
    ) -> Node<'_, T> {
        if !fits {
            return Node {
                graph: Some(self),
                value: T::constant(T::Primal::NAN),
                node: CONSTANT,
            };
        }
        self.notes.borrow_mut().push(Note {
            op,
            value,
            label: String::new(),
            location,
        });
        Node {
            graph: Some(self),
            value,
            node,
        }
    }
}

/// `text` as it stands between the quotes of a DOT string.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

impl<'g, T: Scalar> Node<'g, T> {
    fn detached(value: T) -> Self {
        Self {
            graph: None,
            value,
            node: CONSTANT,
        }
    }

    fn constant_beside(self, _: Self, value: T) -> Self {
        Self::detached(value)
    }

    fn is_detached(self) -> bool {
        self.graph.is_none()
    }

    fn stopped(self) -> Self {
        Self::detached(self.value().stop_gradient())
    }

    #[track_caller]
    fn compiled<W: Work>(work: W) -> W::Output {
        work.run()
    }

    fn is_constant(self) -> bool {
        self.graph.is_none()
    }

    /// The value.
    pub fn value(self) -> T {
        self.value
    }

    /// Names the node in drawings.
    #[must_use]
    pub fn label(self, label: &str) -> Self {
        if let Some(graph) = self.graph
            && let Some(note) = graph
                .notes
                .borrow_mut()
                .get_mut((self.node as usize).wrapping_sub(1))
        {
            label.clone_into(&mut note.label);
        }
        self
    }

    /// The gradient gathered since the last zeroing. Every node has one; that of a constant that is in no graph yet is 0.
    ///
    /// # Errors
    ///
    /// The first error of recording.
    pub fn grad(self) -> Result<T, Error> {
        let Some(graph) = self.graph else {
            return Ok(constant(0.0));
        };
        graph.check()?;
        Ok(graph.tape.gradient_at(self.node))
    }

    /// Adds the gradient of this value to the gradients of all nodes.
    ///
    /// # Errors
    ///
    /// The first error of recording.
    pub fn backward(self) -> Result<(), Error> {
        self.graph.map_or(Ok(()), |graph| {
            Var::exact(&graph.tape, self.node, self.value).backward()
        })
    }

    /// The number of this node in `graph`; a constant that was in none gets one.
    fn placed_in(self, graph: &'g Graph<T>, location: &'static Location<'static>) -> u32 {
        if self.is_constant() {
            graph.leaf("constant", self.value, location).node
        } else {
            self.node
        }
    }

    #[track_caller]
    fn unary(self, op: &'static str, value: T, partial: T) -> Self {
        let location = Location::caller();
        let Some(graph) = self.graph else {
            return Self::detached(value);
        };
        let node = graph.tape.record([(self.node, partial)]);
        graph.note(op, value, location, node)
    }

    #[track_caller]
    fn binary(self, other: Self, op: &'static str, value: T, (left, right): (T, T)) -> Self {
        Self::reduction(
            op,
            [&[self], &[other]],
            reductions::Known {
                value,
                partials: [left, right],
            },
        )
    }

    #[track_caller]
    fn reduction<const N: usize>(
        op: &'static str,
        groups: [&[Self]; N],
        reduction: impl Reduction<T>,
    ) -> Self {
        let location = Location::caller();
        let inputs: Vec<Self> = groups.concat();
        let Some(graph) = inputs.iter().find_map(|x| x.graph) else {
            return Self::detached(reduction.value());
        };
        if inputs
            .iter()
            .any(|x| x.graph.is_some_and(|other| !std::ptr::eq(other, graph)))
        {
            return Self::fault(&Error::MixedTapes { op }, &inputs);
        }
        let placed = inputs.iter().map(|x| x.placed_in(graph, location));
        let parents: Vec<u32> = placed.collect();
        let (node, value) = graph.tape.record_many([&parents], reduction);
        graph.note(op, value, location, node)
    }

    fn mismatch(op: &'static str, [expected, found]: [usize; 2], [a, b]: [&[Self]; 2]) -> Self {
        Self::fault(
            &Error::LengthMismatch {
                op,
                expected,
                found,
            },
            &[a, b].concat(),
        )
    }

    /// Marks all graphs involved as faulty.
    fn fault(error: &Error, inputs: &[Self]) -> Self {
        for graph in inputs.iter().filter_map(|x| x.graph) {
            graph.tape.fault(error.clone());
        }
        let graph = inputs.iter().find_map(|x| x.graph);
        Self {
            graph,
            ..Self::detached(T::constant(T::Primal::NAN))
        }
    }
}

recorded_scalar! { Node }
