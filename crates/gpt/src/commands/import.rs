//! `import`: a model from Hugging Face `transformers`.

use super::{print, program};
use crate::Error;
use crate::cli::ImportArgs;
use crate::hugging_face;
use crate::progress::note;
use crate::text::{grouped, quoted};

/// Makes a run folder of a model in their layout, and says what it is and what can be done with it.
///
/// # Errors
///
/// As [`hugging_face::import()`].
pub fn run(args: &ImportArgs) -> Result<(), Error> {
    let found = hugging_face::import(&args.folder, &args.out, args.convert)?;
    let model = &found.model;
    note(&format!(
        "model  {} layers, {} heads, embedding {}, block {}, vocabulary of {}: {} parameters",
        model.layers,
        model.heads,
        model.embed,
        model.block_size,
        grouped(model.vocab_size as u64),
        grouped(found.parameters as u64),
    ));
    for text in &found.notes {
        note(&format!("note: {text}"));
    }
    let (program, out) = (quoted(&program()), args.out.display().to_string());
    note(&format!(
        "use    {program} generate --model {0}\n       {program} train --init-from {0} --data FILE",
        quoted(&out)
    ));
    print(&out)
}
