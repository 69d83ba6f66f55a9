//! Writing the values of the small graph to a file and reading them back.
//!
//! The reference writes and reads the bare numbers, with nothing that says what they are and nothing to check them by.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Result;
use burtorch_core::graph::Graph;
use burtorch_core::{Durability, load_numbers, save_numbers};
use tempfile::TempDir;

use super::ours::Formula;
use super::small::Small;
use crate::contender::{Author, Contender, Contest, Sample};

/// A folder that goes when the last contender has gone.
type Folder = Rc<TempDir>;

/// The values of all nodes of the small graph.
fn values() -> Vec<f64> {
    let graph = Graph::new();
    Small.of(&[graph.var(-4.0), graph.var(2.0)]);
    graph.values()
}

/// Written over what was there, as ours does: emptying a file first makes some file systems bring it to the disk at once.
fn save_bare(path: &Path, values: &[f64]) -> io::Result<()> {
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    file.write_all(&bytes)
}

fn load_bare(path: &Path) -> io::Result<Vec<f64>> {
    let bytes = fs::read(path)?;
    let (numbers, _) = bytes.as_chunks::<8>();
    Ok(numbers
        .iter()
        .map(|&bytes| f64::from_le_bytes(bytes))
        .collect())
}

fn expected() -> Vec<Sample> {
    vec![sample(&values())]
}

/// Numbers as what is compared.
fn sample(numbers: &[f64]) -> Sample {
    Sample {
        value: numbers.len() as f64,
        gradient: numbers.to_vec(),
    }
}

/// A contender that does something with the values and a file of its own and returns what is now in that file.
fn contender<E: std::fmt::Display + 'static>(
    name: &'static str,
    author: Author,
    folder: &Folder,
    call: impl Fn(&Path, &[f64]) -> Result<Vec<f64>, E> + 'static,
) -> Contender {
    let (folder, path): (Folder, PathBuf) = (folder.clone(), folder.path().join(name));
    Contender::new(
        name,
        author,
        values(),
        folder,
        move |values, _| call(&path, values),
        |loaded, _| vec![sample(loaded)],
    )
}

/// There and back, then each way alone.
pub(super) fn contests() -> Result<Vec<Contest>> {
    let folder = Rc::new(tempfile::tempdir()?);
    let both = Contest {
        expected: expected(),
        contenders: vec![
            contender("hand", Author::Hand, &folder, |path, values| {
                save_bare(path, values)?;
                load_bare(path)
            }),
            there_and_back("tape", &folder, Durability::Plain),
            there_and_back("atomic", &folder, Durability::Atomic),
        ],
    };
    let save = Contest {
        expected: expected(),
        contenders: vec![
            contender("hand save", Author::Hand, &folder, |path, values| {
                save_bare(path, values).map(|()| values.to_vec())
            }),
            contender("save", Author::Ours, &folder, |path, values| {
                save_numbers(path, values, Durability::Plain).map(|()| values.to_vec())
            }),
        ],
    };
    for name in ["hand load", "load"] {
        let path = folder.path().join(name);
        if name == "load" {
            save_numbers(path, &values(), Durability::Plain)?;
        } else {
            save_bare(&path, &values())?;
        }
    }
    let load = Contest {
        expected: expected(),
        contenders: vec![
            contender("hand load", Author::Hand, &folder, |path, _| {
                load_bare(path)
            }),
            contender("load", Author::Ours, &folder, |path, _| {
                load_numbers::<f64>(path)
            }),
        ],
    };
    Ok(vec![both, save, load])
}

fn there_and_back(name: &'static str, folder: &Folder, durability: Durability) -> Contender {
    contender(name, Author::Ours, folder, move |path, values| {
        save_numbers(path, values, durability)?;
        load_numbers::<f64>(path)
    })
}
