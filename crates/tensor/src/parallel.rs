//! Micro-batches on threads, with the same bits for every number of threads.

use rayon::prelude::*;

use crate::error::check_len;
use crate::kernels::elementwise::add_into;
use crate::{Element, Error, Params, Result, Workspace};

/// Into how many runs of consecutive pieces a step is cut. It fixes the order of summation, so it does not depend on the
/// number of threads; more threads than this find no work.
const GROUPS: usize = 4;

/// Runs the pieces (micro-batches) of a step on threads and adds up their gradients in a fixed order.
///
/// Consecutive pieces form at most four groups. A group's pieces run one after the other on one thread and add into one
/// buffer; the buffers are then added in the order of the groups. So the result's bits depend on the number of pieces
/// only. Memory: one workspace and one gradient buffer a thread.
pub struct Pieces<T, W> {
    pool: rayon::ThreadPool,
    workers: Vec<Worker<T, W>>,
}

struct Worker<T, W> {
    workspace: W,
    gradients: Vec<T>,
}

impl<T: Element, W: Workspace<T>> Pieces<T, W> {
    /// With this many threads, at least one.
    ///
    /// # Errors
    /// [`Error::Threads`] for zero, or if the system refuses.
    pub fn new(threads: usize) -> Result<Self> {
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

    /// Overwrites `gradients` with the sum over all pieces and returns the pieces' results in order.
    ///
    /// `work` gets the number of its piece, a workspace, and a gradient buffer to add into.
    ///
    /// # Errors
    /// The error of the first piece that fails; [`Error::Length`] if `gradients` has another layout than `params`.
    pub fn run<R, E>(
        &mut self,
        params: &Params<T>,
        gradients: &mut [T],
        pieces: usize,
        work: impl Fn(usize, &mut W, &Params<T>, &mut [T]) -> std::result::Result<R, E> + Sync,
    ) -> std::result::Result<Vec<R>, E>
    where
        R: Send,
        E: From<Error> + Send,
    {
        check_len("gradients", params.len(), gradients.len())?;
        gradients.fill(T::ZERO);
        let groups = pieces.min(GROUPS);
        let bounds = |group: usize| group * pieces / groups..(group + 1) * pieces / groups;
        let mut results = Vec::new();
        if self.workers.len() == 1 || groups == 1 {
            let Worker {
                workspace,
                gradients: buffer,
            } = &mut self.workers[0];
            for group in 0..groups {
                // The first group's sum needs no buffer: adding it to zeros changes nothing.
                let target = if group == 0 {
                    &mut *gradients
                } else {
                    zeroed(buffer, params.len())
                };
                for piece in bounds(group) {
                    results.push(work(piece, workspace, params, target)?);
                }
                if group > 0 {
                    add_into(gradients, buffer);
                }
            }
            return Ok(results);
        }
        for first in (0..groups).step_by(self.workers.len()) {
            let size = (groups - first).min(self.workers.len());
            let wave = &mut self.workers[..size];
            let run_group = |(i, worker): (usize, &mut Worker<T, W>)| {
                let Worker {
                    workspace,
                    gradients,
                } = worker;
                let target = zeroed(gradients, params.len());
                bounds(first + i)
                    .map(|piece| work(piece, workspace, params, target))
                    .collect()
            };
            let done: Vec<std::result::Result<Vec<R>, E>> = self.pool.install(|| {
                wave.par_iter_mut()
                    .enumerate()
                    .with_max_len(1)
                    .map(run_group)
                    .collect()
            });
            for (done, worker) in done.into_iter().zip(wave) {
                results.extend(done?);
                add_into(gradients, &worker.gradients);
            }
        }
        Ok(results)
    }
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
        let results = workers.run(
            &params,
            &mut gradients,
            pieces,
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
        (results.unwrap(), gradients)
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
                workers.run(&params(), &mut [0.0; 3], 5, fail),
                Err(Error::DuplicateName { .. })
            ));
            assert!(matches!(
                workers.run(&params(), &mut [0.0; 2], 5, fail),
                Err(Error::Length { .. })
            ));
        }
    }
}
