//! Numbers in files come back with the same bits, and what is not such a file is refused without panic.

use std::fs;
use std::path::PathBuf;

use burtorch_core::graph::Graph;
use burtorch_core::{
    Durability, Error, Float, Scalar, Tape, load_numbers, save_gradients, save_numbers, save_values,
};
use proptest::prelude::*;

const ALL: [Durability; 3] = [Durability::Plain, Durability::Atomic, Durability::Durable];

/// A folder of its own for each test, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("burtorch-save-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("a.numbers")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn bits<F: Float>(numbers: &[F]) -> Vec<u8> {
    let mut bytes = Vec::new();
    numbers.iter().for_each(|x| x.append_bytes(&mut bytes));
    bytes
}

/// What is wrong with a file.
fn problem(error: &Error) -> &'static str {
    match error {
        Error::BadFile { what, .. } => what,
        other => panic!("another error: {other:?}"),
    }
}

fn any_bits() -> impl Strategy<Value = f64> {
    any::<u64>().prop_map(f64::from_bits)
}

proptest! {
    #[test]
    fn every_number_comes_back_with_its_bits(numbers in prop::collection::vec(any_bits(), 0..50), durability in 0..2_usize) {
        let folder = Folder::new("bits");
        let singles: Vec<f32> = numbers.iter().map(|x| f32::from_bits(x.to_bits() as u32)).collect();
        save_numbers(folder.file(), &numbers, ALL[durability]).unwrap();
        prop_assert_eq!(bits(&load_numbers::<f64>(folder.file()).unwrap()), bits(&numbers));
        save_numbers(folder.file(), &singles, ALL[durability]).unwrap();
        prop_assert_eq!(bits(&load_numbers::<f32>(folder.file()).unwrap()), bits(&singles));
    }

    #[test]
    fn what_is_no_such_file_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), header in 0..25_usize) {
        let folder = Folder::new("noise");
        save_numbers(folder.file(), &[1.0, 2.0], Durability::Plain).unwrap();
        let mut noise = fs::read(folder.file()).unwrap()[..header].to_vec();
        noise.extend(bytes);
        fs::write(folder.file(), noise).unwrap();
        prop_assert!(load_numbers::<f64>(folder.file()).is_err());
    }
}

#[test]
fn every_byte_counts() {
    let folder = Folder::new("bytes");
    save_numbers(folder.file(), &[1.5, -2.5, f64::NAN], Durability::Plain).unwrap();
    let good = fs::read(folder.file()).unwrap();
    assert_eq!(good.len(), 32 + 3 * 8);
    for length in 0..good.len() {
        fs::write(folder.file(), &good[..length]).unwrap();
        problem(&load_numbers::<f64>(folder.file()).unwrap_err());
    }
    for (position, bit) in
        (0..good.len()).flat_map(|position| (0..8).map(move |bit| (position, bit)))
    {
        let mut bad = good.clone();
        bad[position] ^= 1 << bit;
        fs::write(folder.file(), &bad).unwrap();
        let found = problem(&load_numbers::<f64>(folder.file()).unwrap_err());
        let expected = match position {
            0..8 => "a file that begins with",
            8..12 => "version",
            12..16 => "numbers of type",
            16..24 => "a count of",
            _ => "the checksum",
        };
        assert_eq!(found, expected, "byte {position}");
    }
    fs::write(folder.file(), [&good[..], &[0]].concat()).unwrap();
    assert_eq!(
        problem(&load_numbers::<f64>(folder.file()).unwrap_err()),
        "a size in bytes of"
    );
    fs::write(folder.file(), &good).unwrap();
    assert_eq!(
        load_numbers::<f64>(folder.file()).unwrap()[..2],
        [1.5, -2.5]
    );
}

#[test]
fn messages_name_the_file_and_both_sides() {
    let folder = Folder::new("messages");
    save_numbers(folder.file(), &[1.0_f32, 2.0], Durability::Plain).unwrap();
    let message = |error: Error| {
        error
            .to_string()
            .replace(&folder.file().display().to_string(), "FILE")
    };
    let wrong_type = load_numbers::<f64>(folder.file()).unwrap_err();
    assert_eq!(
        message(wrong_type),
        r#"FILE: expected numbers of type "f64\x00", found "f32\x00""#
    );
    let mut huge = fs::read(folder.file()).unwrap();
    huge[16..24].fill(0xff);
    fs::write(folder.file(), &huge).unwrap();
    let too_many = load_numbers::<f32>(folder.file()).unwrap_err();
    assert_eq!(
        message(too_many),
        "FILE: expected a count of 2, found 18446744073709551615"
    );
    let missing = load_numbers::<f32>(folder.0.join("missing")).unwrap_err();
    assert!(
        matches!(
            &missing,
            Error::Io {
                kind: std::io::ErrorKind::NotFound,
                ..
            }
        ),
        "{missing}"
    );
    assert!(matches!(
        load_numbers::<f32>(&folder.0),
        Err(Error::Io { .. })
    ));
    for durability in ALL {
        assert!(matches!(
            save_numbers(folder.0.join("no/such"), &[1.0], durability),
            Err(Error::Io { .. })
        ));
        assert!(matches!(
            save_numbers("/", &[1.0], durability),
            Err(Error::Io { .. })
        ));
    }
}

#[test]
fn a_longer_file_is_replaced_and_nothing_is_left_beside() {
    for durability in ALL {
        let folder = Folder::new(&format!("{durability:?}"));
        let long: Vec<f64> = (0..20_000).map(f64::from).collect();
        save_numbers(folder.file(), &long, durability).unwrap();
        assert_eq!(load_numbers(folder.file()), Ok(long));
        save_numbers(folder.file(), &[7.0], durability).unwrap();
        assert_eq!(load_numbers(folder.file()), Ok(vec![7.0]));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    }
}

/// Readers see one of the versions at any moment, never a mixture.
#[test]
fn an_atomic_write_is_never_seen_half() {
    let folder = Folder::new("readers");
    let version = |i: u32| vec![f64::from(i); 5_000];
    save_numbers(folder.file(), &version(0), Durability::Atomic).unwrap();
    std::thread::scope(|scope| {
        for first in [1, 1000] {
            let file = folder.file();
            scope.spawn(move || {
                (first..first + 50)
                    .for_each(|i| save_numbers(&file, &version(i), Durability::Atomic).unwrap());
            });
        }
        for _ in 0..200 {
            let numbers = load_numbers::<f64>(folder.file()).unwrap();
            assert!(numbers.iter().all(|&x| x == numbers[0]));
        }
    });
}

#[test]
fn values_and_gradients_of_chosen_nodes_and_of_whole_tapes() {
    let folder = Folder::new("tapes");
    let record = |tape: &Tape<f64>| {
        let x = tape.vars(&[2.0, 3.0]);
        let y = x[0] * x[1] + x[0];
        y.backward().unwrap();
        y.grad().unwrap()
    };
    let tape = Tape::new();
    record(&tape);
    tape.save_gradients(folder.file(), Durability::Plain)
        .unwrap();
    assert_eq!(load_numbers(folder.file()), Ok(vec![4.0, 2.0, 1.0, 1.0]));

    let other = Tape::new();
    record(&other);
    record(&other);
    let gradients = other.grads().unwrap();
    let error = other.load_gradients(folder.file()).unwrap_err();
    assert_eq!(problem(&error), "a count of");
    assert_eq!(
        other.set_grads(&[0.0]),
        Err(Error::WrongCount {
            what: "gradients",
            expected: 8,
            found: 1
        })
    );
    assert_eq!(other.grads().unwrap(), gradients);

    let resumed = Tape::new();
    let x = resumed.vars(&[2.0, 3.0]);
    let y = x[0] * x[1] + x[0];
    resumed.load_gradients(folder.file()).unwrap();
    y.backward().unwrap();
    assert_eq!(resumed.grads(), Ok(vec![8.0, 4.0, 2.0, 2.0]));
    assert_eq!(x[1].grad(), Ok(4.0));

    save_values(folder.file(), &[x[1], y], Durability::Plain).unwrap();
    assert_eq!(load_numbers(folder.file()), Ok(vec![3.0, 8.0]));
    save_gradients(folder.file(), &[x[1], y], Durability::Plain).unwrap();
    assert_eq!(load_numbers(folder.file()), Ok(vec![4.0, 2.0]));
    assert_eq!(
        save_gradients(folder.file(), &[y.exp()], Durability::Plain),
        Err(Error::NotRetained)
    );

    let graph = Graph::new();
    let x = graph.var(3.0);
    x.square().backward().unwrap();
    assert_eq!(
        (graph.values(), graph.grads()),
        (vec![3.0, 9.0], Ok(vec![6.0, 1.0]))
    );
}

#[cfg(unix)]
#[test]
fn a_file_that_is_replaced_keeps_its_permissions_and_its_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    for durability in [Durability::Atomic, Durability::Durable] {
        let folder = Folder::new("replaced");
        save_numbers(folder.file(), &[1.0_f64], durability).unwrap();
        fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o600)).unwrap();
        let link = folder.file().with_extension("link");
        symlink(folder.file(), &link).unwrap();
        save_numbers(&link, &[2.0_f64], durability).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(load_numbers::<f64>(folder.file()).unwrap(), [2.0]);
        let mode = fs::metadata(folder.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
