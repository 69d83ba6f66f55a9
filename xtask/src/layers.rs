//! The edges allowed between our packages; any other edge, in whichever kind of dependency, is a defect.

use crate::process::{cargo, output_of};
use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Each of our packages with those of ours it may depend on, in normal, development and build dependencies alike.
const ALLOWED: [(&str, &[&str]); 9] = [
    ("burtorch-core", &[]),
    ("burtorch-tensor", &["burtorch-core"]),
    ("burtorch-nn", &["burtorch-core", "burtorch-tensor"]),
    ("burtorch-optim", &["burtorch-core"]),
    ("burtorch-data", &[]),
    (
        "burtorch-gpt",
        &[
            "burtorch-core",
            "burtorch-tensor",
            "burtorch-nn",
            "burtorch-optim",
            "burtorch-data",
        ],
    ),
    (
        "burtorch-tests",
        &[
            "burtorch-core",
            "burtorch-tensor",
            "burtorch-nn",
            "burtorch-optim",
            "burtorch-data",
            "burtorch-gpt",
        ],
    ),
    (
        "burtorch-benches",
        &[
            "burtorch-core",
            "burtorch-tensor",
            "burtorch-nn",
            "burtorch-optim",
            "burtorch-data",
            "burtorch-gpt",
        ],
    ),
    ("xtask", &[]),
];

/// Compares the workspace's edges with the table.
pub(crate) fn check() -> Result<()> {
    let text = output_of(&mut cargo(&[
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
    ]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata printed no JSON")?;
    let faults = faults(&metadata)?;
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    println!(
        "{} packages, every edge between them is allowed",
        ALLOWED.len()
    );
    Ok(())
}

/// What is wrong with the packages of `cargo metadata --no-deps`, one line per fault.
fn faults(metadata: &Value) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for package in list(metadata, "packages")? {
        let name = text(package, "name")?;
        let Some((_, allowed)) = ALLOWED.iter().find(|(ours, _)| *ours == name) else {
            faults.push(format!(
                "{name} is not in the table of xtask/src/layers.rs: give it a row there"
            ));
            continue;
        };
        for dependency in list(package, "dependencies")? {
            faults.extend(fault(name, allowed, dependency)?);
        }
    }
    Ok(faults)
}

/// The fault of one dependency, if it is one of our packages and not allowed.
fn fault(name: &str, allowed: &[&str], dependency: &Value) -> Result<Option<String>> {
    let target = text(dependency, "name")?;
    if !is_ours(target, dependency) || allowed.contains(&target) {
        return Ok(None);
    }
    let kind = dependency["kind"].as_str().unwrap_or("normal");
    let choice = if allowed.is_empty() {
        "none of ours".to_owned()
    } else {
        allowed.join(", ")
    };
    Ok(Some(format!(
        "{name} may not depend on {target} ({kind} dependency); allowed: {choice}"
    )))
}

/// Our packages are known by name, and any other dependency by path can only be ours too.
fn is_ours(target: &str, dependency: &Value) -> bool {
    dependency["path"].is_string() || ALLOWED.iter().any(|(ours, _)| *ours == target)
}

fn list<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key]
        .as_array()
        .with_context(|| format!("cargo metadata has no list `{key}`"))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key]
        .as_str()
        .with_context(|| format!("cargo metadata has no text `{key}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults_of(name: &str, dependencies: &Value) -> Vec<String> {
        let metadata = json!({"packages": [{"name": name, "dependencies": dependencies}]});
        faults(&metadata).expect("the metadata is well formed")
    }

    #[test]
    fn allowed_edges_and_other_peoples_crates_pass() {
        let dependencies = json!([
            {"name": "burtorch-core", "kind": null, "path": "/r/crates/core"},
            {"name": "thiserror", "kind": null},
            {"name": "proptest", "kind": "dev"}
        ]);
        assert_eq!(faults_of("burtorch-tensor", &dependencies), [""; 0]);
    }

    #[test]
    fn a_forbidden_edge_names_both_ends_and_the_choice() {
        let upwards =
            json!([{"name": "burtorch-tensor", "kind": null, "path": "/r/crates/tensor"}]);
        assert_eq!(
            faults_of("burtorch-core", &upwards),
            [
                "burtorch-core may not depend on burtorch-tensor (normal dependency); allowed: none of ours"
            ]
        );
        assert_eq!(
            faults_of("burtorch-optim", &upwards),
            [
                "burtorch-optim may not depend on burtorch-tensor (normal dependency); allowed: burtorch-core"
            ]
        );
    }

    #[test]
    fn development_and_build_edges_count_too() {
        for kind in ["dev", "build"] {
            let found = faults_of(
                "burtorch-data",
                &json!([{"name": "burtorch-core", "kind": kind}]),
            );
            assert_eq!(found.len(), 1, "{kind}");
            assert!(
                found[0].contains(&format!("({kind} dependency)")),
                "{found:?}"
            );
        }
    }

    #[test]
    fn unknown_packages_are_faults_on_either_end() {
        let found = faults_of("burtorch-new", &json!([]));
        assert_eq!(
            found,
            ["burtorch-new is not in the table of xtask/src/layers.rs: give it a row there"]
        );
        let found = faults_of(
            "burtorch-nn",
            &json!([{"name": "helpers", "kind": null, "path": "/r/helpers"}]),
        );
        assert!(
            found[0].starts_with("burtorch-nn may not depend on helpers"),
            "{found:?}"
        );
    }

    #[test]
    fn malformed_metadata_is_an_error() {
        assert!(faults(&json!({})).is_err());
        assert!(faults(&json!({"packages": [{"dependencies": []}]})).is_err());
    }

    #[test]
    fn a_row_of_the_table_names_only_rows_above_it() {
        for (index, (name, allowed)) in ALLOWED.iter().enumerate() {
            let above: Vec<&str> = ALLOWED[..index].iter().map(|(other, _)| *other).collect();
            assert!(allowed.iter().all(|other| above.contains(other)), "{name}");
        }
    }
}
