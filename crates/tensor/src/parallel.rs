//! Micro-batches on threads, with the same bits for every number of threads.

use rayon::prelude::*;

use crate::error::check_len;
use crate::kernels::elementwise::add_into;
use crate::{Element, Error, Params, Workspace};

/// Into how many runs of consecutive pieces a step is cut. It fixes the order of summation, so it does not depend on the
/// number of threads; more threads than this find no work.
const GROUPS: usize = 4;

/// Runs the pieces (micro-batches) of a step on threads and adds up their gradients in a fixed order.
///
/// Consecutive pieces form at most four groups. A group's pieces run one after the other on one thread and add into one
/// buffer; the buffers are then added in the order of the groups. So the result's bits depend on the number of pieces
/// only. Memory: one workspace a thread, and one gradient buffer a thread as soon as there are two pieces.
///
/// From the second step on nothing is allocated, except by rayon: its queue of jobs from outside takes a new block of a
/// kilobyte for every 31 jobs, and a step on several threads is one job.
pub struct Pieces<T, W> {
    pool: rayon::ThreadPool,
    workers: Vec<Worker<T, W>>,
}

struct Worker<T, W> {
    workspace: W,
    gradients: Vec<T>,
}

/// Consecutive pieces, and what came of them.
struct Group<'a, R, E> {
    first: usize,
    results: &'a mut [R],
    outcome: Result<(), E>,
}

impl<R, E> Group<'_, R, E> {
    fn run(&mut self, mut work: impl FnMut(usize) -> Result<R, E>) {
        let mut numbered = (self.first..).zip(self.results.iter_mut());
        self.outcome =
            numbered.try_for_each(|(piece, result)| work(piece).map(|found| *result = found));
    }

    /// What became of the group; from then on, that it went well.
    fn take_outcome(&mut self) -> Result<(), E> {
        std::mem::replace(&mut self.outcome, Ok(()))
    }
}

/// Cuts the pieces with these results into groups, of which the first ones are used.
fn groups<R, E>(mut results: &mut [R]) -> [Group<'_, R, E>; GROUPS] {
    let pieces = results.len();
    let count = pieces.clamp(1, GROUPS);
    let bound = |group: usize| group.min(count) * pieces / count;
    std::array::from_fn(|group| {
        let (first, end) = (bound(group), bound(group + 1));
        let (mine, others) = std::mem::take(&mut results).split_at_mut(end - first);
        results = others;
        Group {
            first,
            results: mine,
            outcome: Ok(()),
        }
    })
}

impl<T: Element, W: Workspace<T>> Pieces<T, W> {
    /// With this many threads, at least one.
    ///
    /// # Errors
    /// [`Error::Threads`] for zero, or if the system refuses.
    pub fn new(threads: usize) -> Result<Self, Error> {
        let fail = |reason: String| Error::Threads { threads, reason };
        if threads == 0 {
            return Err(fail("at least one is needed".into()));
        }
        let threads = threads.min(GROUPS);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|e| fail(e.to_string()))?;
        let workers = (0..threads)
            .map(|_| Worker {
                workspace: W::default(),
                gradients: Vec::new(),
            })
            .collect();
        Ok(Pieces { pool, workers })
    }

    /// Number of threads at work.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.workers.len()
    }

    /// Gives the memory of the workspaces back until the next step, which takes as much again.
    pub fn release(&mut self) {
        for worker in &mut self.workers {
            worker.workspace = W::default();
        }
    }

    /// Runs one piece for each element of `results`, which gets what the piece returns, and overwrites `gradients` with the
    /// sum over all pieces.
    ///
    /// `work` gets the number of its piece, a workspace, and a gradient buffer to add into.
    ///
    /// # Errors
    /// The error of the first piece that fails; [`Error::Length`] if `gradients` has another layout than `params`.
    pub fn run<R, E>(
        &mut self,
        params: &Params<T>,
        gradients: &mut [T],
        results: &mut [R],
        work: impl Fn(usize, &mut W, &Params<T>, &mut [T]) -> Result<R, E> + Sync,
    ) -> Result<(), E>
    where
        R: Send,
        E: From<Error> + Send,
    {
        check_len("gradients", params.len(), gradients.len())?;
        gradients.fill(T::ZERO);
        let used = results.len().min(GROUPS);
        let groups = &mut groups(results)[..used];
        let Self { pool, workers } = self;
        if workers.len() == 1 || used == 1 {
            return one_after_the_other(&mut workers[0], groups, params, gradients, work);
        }
        pool.install(|| side_by_side(workers, groups, params, gradients, &work))
    }
}

fn one_after_the_other<T: Element, W, R, E>(
    worker: &mut Worker<T, W>,
    groups: &mut [Group<'_, R, E>],
    params: &Params<T>,
    gradients: &mut [T],
    work: impl Fn(usize, &mut W, &Params<T>, &mut [T]) -> Result<R, E>,
) -> Result<(), E> {
    let Worker {
        workspace,
        gradients: buffer,
    } = worker;
    for (number, group) in groups.iter_mut().enumerate() {
        // The first group's sum needs no buffer: adding it to zeros changes nothing.
        let target = match number {
            0 => &mut *gradients,
            _ => zeroed(buffer, params.len()),
        };
        group.run(|piece| work(piece, workspace, params, target));
        group.take_outcome()?;
        if number > 0 {
            add_into(gradients, buffer);
        }
    }
    Ok(())
}

/// As many groups at a time as there are workers.
fn side_by_side<T: Element, W: Send, R: Send, E: Send>(
    workers: &mut [Worker<T, W>],
    groups: &mut [Group<'_, R, E>],
    params: &Params<T>,
    gradients: &mut [T],
    work: impl Fn(usize, &mut W, &Params<T>, &mut [T]) -> Result<R, E> + Sync,
) -> Result<(), E> {
    let run_group = |(worker, group): (&mut Worker<T, W>, &mut Group<'_, R, E>)| {
        let Worker {
            workspace,
            gradients,
        } = worker;
        let target = zeroed(gradients, params.len());
        group.run(|piece| work(piece, workspace, params, target));
    };
    for wave in groups.chunks_mut(workers.len()) {
        let pairs = workers.par_iter_mut().zip(wave.par_iter_mut());
        pairs.with_max_len(1).for_each(run_group);
        for (worker, group) in workers.iter().zip(wave) {
            group.take_outcome()?;
            add_into(gradients, &worker.gradients);
        }
    }
    Ok(())
}

fn zeroed<T: Element>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    buffer.clear();
    buffer.resize(len, T::ZERO);
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Engine, Shape, TensorEngine, ops};

    fn params() -> Params<f32> {
        let mut params = Params::new();
        params
            .add("w", Shape::new(&[3]).unwrap(), &[0.1, 0.2, 0.3])
            .unwrap();
        params
    }

    type Outcome = (Vec<f32>, Vec<f32>);

    fn run(threads: usize, pieces: usize) -> Outcome {
        let params = params();
        let id = params.find("w").unwrap();
        let mut gradients = vec![9.0; 3];
        let mut workers = Pieces::<f32, TensorEngine<f32>>::new(threads).unwrap();
        let mut results = vec![0.0; pieces];
        let done = workers.run(
            &params,
            &mut gradients,
            &mut results,
            |piece, workspace, params, gradients| {
                let mut pass = workspace.bind(params, Context::default());
                let w = pass.param(id)?;
                let x = pass.constant(
                    &[piece as f32 + 0.1, 1.7, 1.0 / (piece as f32 + 3.0)],
                    Shape::new(&[3])?,
                )?;
                let y = pass.apply(ops::Mul, [w, x])?;
                let y = pass.apply(ops::Tanh, [y])?;
                let y = pass.apply(ops::Sum, [y])?;
                pass.backward_scalar(y, gradients)?;
                Ok::<f32, Error>(pass.value(y).data[0])
            },
        );
        done.unwrap();
        (results, gradients)
    }

    #[test]
    fn f34_every_number_of_threads_gives_the_same_bits() {
        for pieces in [1, 2, 3, 4, 5, 11] {
            let one = run(1, pieces);
            assert_eq!(one.0.len(), pieces);
            for threads in [2, 3, 4, 7] {
                assert_eq!(
                    run(threads, pieces),
                    one,
                    "{threads} threads, {pieces} pieces"
                );
            }
        }
        assert_eq!(run(2, 0), (vec![], vec![0.0; 3]));
    }

    #[test]
    fn errors_of_pieces_and_settings_arrive() {
        assert!(Pieces::<f32, TensorEngine<f32>>::new(0).is_err());
        for threads in [1, 2] {
            let mut workers = Pieces::<f32, TensorEngine<f32>>::new(threads).unwrap();
            let fail = |piece, _: &mut _, _: &_, _: &mut [f32]| {
                if piece == 3 {
                    Err(Error::DuplicateName {
                        name: "piece".into(),
                    })
                } else {
                    Ok(())
                }
            };
            assert!(matches!(
                workers.run(&params(), &mut [0.0; 3], &mut [(); 5], fail),
                Err(Error::DuplicateName { .. })
            ));
            assert!(matches!(
                workers.run(&params(), &mut [0.0; 2], &mut [(); 5], fail),
                Err(Error::Length { .. })
            ));
        }
    }
}
