//! `export`: a model for Hugging Face `transformers`.

use super::{load, print};
use crate::Error;
use crate::cli::ExportArgs;
use crate::hugging_face;
use crate::progress::note;
use crate::run_directory::RunDirectory;
use crate::text::grouped;

/// Writes the model of a run in their layout, and prints the folder.
///
/// # Errors
///
/// As [`hugging_face::export()`], and whatever is wrong with the files of the run.
pub fn run(args: &ExportArgs) -> Result<(), Error> {
    let (_, _, loaded, tokenizer) = load(&RunDirectory::open(&args.model)?, args.best)?;
    hugging_face::export(&loaded.model, &loaded.params, &tokenizer, &args.out)?;
    note(&format!(
        "{} parameters in the layout of GPT-2; in Python: AutoModelForCausalLM.from_pretrained({:?})",
        grouped(loaded.params.len() as u64),
        args.out.display().to_string(),
    ));
    print(&args.out.display().to_string())
}
