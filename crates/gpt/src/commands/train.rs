//! `train`: from a text to a model.

use std::path::Path;

use burtorch_tensor::{ScalarEngine, TensorEngine, Workspace};

use std::io::{IsTerminal, stderr};

use super::{given, plot, print, print_json, program, threads};
use crate::Error;
use crate::best::{Best, Overfitting};
use crate::cli::TrainArgs;
use crate::config::EngineKind;
use crate::interrupt;
use crate::plan::Plan;
use crate::plot::{Curves, terminal};
use crate::progress::{Progress, note};
use crate::run_directory::{RUNS, RunDirectory};
use crate::session::Session;
use crate::text::{grouped, quoted, rate};

/// Trains, or goes on training.
///
/// # Errors
///
/// Whatever is wrong with settings, files or numbers; see [`Session`].
pub fn run(args: &TrainArgs) -> Result<(), Error> {
    let given = given(&args.settings, args.config.as_deref())?;
    let out = args.out.as_deref();
    let plan = if args.resume {
        Plan::resumed(&given, existing(out)?)
    } else {
        Plan::fresh(&given, out)
    }?;
    let threads = threads(args.threads)?;
    match plan.config().engine {
        EngineKind::Tensor => train(
            Session::<TensorEngine<f32>>::open(plan, threads)?,
            args.json,
        ),
        EngineKind::Scalar => train(
            Session::<ScalarEngine<f32>>::open(plan, threads)?,
            args.json,
        ),
    }
}

fn existing(out: Option<&Path>) -> Result<RunDirectory, Error> {
    out.map_or_else(|| RunDirectory::newest(Path::new(RUNS)), RunDirectory::open)
}

fn train<W: Workspace<f32>>(mut session: Session<W>, json: bool) -> Result<(), Error> {
    note(&introduction(&session));
    let made = session.trainer().steps();
    if session.record().program_version != env!("CARGO_PKG_VERSION") {
        note(&format!(
            "note: the run was started by version {} of this program",
            session.record().program_version
        ));
    }
    if session.is_finished() {
        note(&format!(
            "the run is finished: all {} steps are made",
            grouped(made)
        ));
    }
    let mut progress = Progress::new(made, session.config().steps);
    interrupt::listen(
        "stopping behind this step (Ctrl-C again: at once, with what was saved last)",
    );
    let ended = advance(&mut session, &mut progress);
    progress.finish();
    if let Err(error) = ended {
        if matches!(error, Error::Stopped { .. })
            && let Err(failed) = draw(&session)
        {
            note(&format!("note: no picture of the run: {failed}"));
        }
        return Err(error);
    }
    let (summary, sample) = session.summary()?;
    match draw(&session) {
        Ok(curves) if stderr().is_terminal() => note(&terminal::losses(&curves)),
        Ok(_) => {}
        Err(failed) => note(&format!("note: no picture of the run: {failed}")),
    }
    let text = summary.text(&sample, &program());
    if json {
        note(&text);
        print_json(&summary)
    } else {
        print(&text)
    }
}

/// Draws the run so far into its folder.
fn draw<W: Workspace<f32>>(session: &Session<W>) -> Result<Curves, Error> {
    let curves = plot::read(session.directory())?;
    plot::write(std::slice::from_ref(&curves), &session.directory().curve())?;
    Ok(curves)
}

/// Makes the steps that are left, unless the user ends the run before, which saves its state.
fn advance<W: Workspace<f32>>(
    session: &mut Session<W>,
    progress: &mut Progress,
) -> Result<(), Error> {
    let (mut overfitting, mut warned) = (Overfitting::default(), false);
    while !session.is_finished() {
        let line = session.advance()?;
        progress.show(&line);
        if let Some(loss) = line.val_loss {
            if overfitting.begins(session.best(), loss, session.training_loss()) {
                progress.note(&by_heart(session.best()));
            }
            let guessing = session.guessing_loss();
            let is_bad = loss > WILD * guessing || session.is_finished() && loss >= guessing;
            if is_bad && !warned {
                warned = true;
                progress.note(NO_BETTER_THAN_GUESSING);
            }
        }
        if interrupt::requested() && !session.is_finished() {
            session.save_now()?;
            return Err(Error::Stopped {
                step: session.trainer().steps(),
                steps: session.config().steps,
                command: resuming(session),
            });
        }
    }
    Ok(())
}

/// A validation loss so many times that of guessing is worth a word.
const WILD: f64 = 1.5;

const NO_BETTER_THAN_GUESSING: &str = "note: the model predicts no better than guessing; most often the learning rate is too high \
     (a lower --lr, a longer --warmup or --grad-clip 1 help), or there were too few steps";

fn by_heart(best: &Best) -> String {
    let (step, loss) = best.found().unwrap_or_default();
    format!(
        "note: the validation loss has not fallen below {loss:.4} since step {}; a model that goes on like this learns its text by \
         heart. The model of that step is kept: generate and eval take it with --best",
        grouped(step)
    )
}

/// The command that goes on with a run.
fn resuming<W: Workspace<f32>>(session: &Session<W>) -> String {
    format!(
        "{} train --out {} --resume",
        quoted(&program()),
        quoted(&session.directory().path().display().to_string())
    )
}

/// What is about to be trained, on what, how, and what a model that learns nothing would reach.
fn introduction<W: Workspace<f32>>(session: &Session<W>) -> String {
    let config = session.config();
    let corpus = session.corpus();
    let made = match session.trainer().steps() {
        0 => String::new(),
        step => format!(", going on behind step {}", grouped(step)),
    };
    let mut text = format!(
        "model     {} layers, {} heads, embedding {}, block {}, dropout {}: {} parameters\n\
         text      {}: {} tokens to learn, {} to validate, vocabulary of {} ({})\n\
         training  {} steps of {} sequences, {} at a time{made}\n\
         optimizer {} with rate {} to {}, warm-up {}, weight decay {}, clipping {}; seed {}\n\
         guessing  {:.4} nats per token: the loss of a model that knows nothing\n\
         run       {out}, with all settings in its config.toml",
        config.layers,
        config.heads,
        config.embed,
        config.block_size,
        config.dropout,
        grouped(session.trainer().params().len() as u64),
        session.record().data_name,
        grouped(corpus.training().len() as u64),
        grouped(corpus.validation().len() as u64),
        grouped(session.tokenizer().size() as u64),
        config.tokenizer,
        grouped(config.steps),
        grouped(config.batch_size as u64),
        grouped(config.micro_batch as u64),
        session.trainer().optimizer().name(),
        rate(config.lr),
        rate(config.min_lr),
        grouped(config.warmup),
        config.weight_decay,
        config.grad_clip,
        config.seed,
        session.guessing_loss(),
        out = session.directory().path().display(),
    );
    if !session.is_finished() {
        text += &format!(
            "\nstopping  Ctrl-C at any time saves the run; to go on:\n{:10}{}",
            "",
            resuming(session)
        );
    }
    text
}
