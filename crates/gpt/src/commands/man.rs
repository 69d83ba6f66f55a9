//! `man`: manual pages.

use std::io::{self, Write};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::cli::{Cli, ManArgs};
use crate::{Error, atomic_file};

/// Writes the page of the program to standard output, or all pages into a folder.
///
/// # Errors
///
/// [`Error::File`] for a folder that cannot be written, [`Error::Output`] and [`Error::OutputClosed`].
pub fn run(args: &ManArgs) -> Result<(), Error> {
    // `help` explains itself, and would have a page for every other command again.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let Some(folder) = &args.out else {
        let shown = page(command).and_then(|(_, page)| io::stdout().write_all(&page));
        return shown.map_err(Error::output);
    };
    let commands: Vec<Command> = command.get_subcommands().cloned().collect();
    for command in std::iter::once(command).chain(commands) {
        let (name, page) = page(command).map_err(Error::file(folder, "make a manual page"))?;
        atomic_file::replace(&folder.join(name), |file| file.write_all(&page))?;
    }
    Ok(())
}

/// The page of a command, and what its file is called.
fn page(command: Command) -> io::Result<(String, Vec<u8>)> {
    let (has_commands, has_version) = (command.has_subcommands(), command.get_version().is_some());
    let man = Man::new(command);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    page.write_all(&examples(&man)?)?;
    if has_version {
        man.render_version_section(&mut page)?;
    }
    Ok((man.get_filename(), page))
}

/// The section behind the options, whose lines stay as they are: most are examples.
fn examples(man: &Man) -> io::Result<Vec<u8>> {
    let mut section = Vec::new();
    man.render_extra_section(&mut section)?;
    let text = String::from_utf8_lossy(&section);
    let kept = text.replacen(".SH EXTRA\n", ".SH EXAMPLES\n.nf\n", 1);
    Ok((kept + "\n.fi\n").into_bytes())
}
