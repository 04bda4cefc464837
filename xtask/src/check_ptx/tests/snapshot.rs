//! Comparing, accepting, exceptions, the file.

use crate::check_ptx::converge::Finding;
use crate::check_ptx::count::Counts;
use crate::check_ptx::snapshot::{Comparison, Exception, Found, Part, Snapshot, excuse};

fn counts(list: &[(&str, u64)]) -> Counts {
    list.iter()
        .map(|(kind, n)| ((*kind).to_owned(), *n))
        .collect()
}

/// Entry point, architecture, counts.
type Row<'a> = (&'a str, &'a str, &'a [(&'a str, u64)]);

fn found(list: &[Row<'_>]) -> Found {
    let mut found = Found::new();
    for (entry, architecture, list) in list {
        let entry = found.entry((*entry).to_owned()).or_default();
        entry.insert((*architecture).to_owned(), counts(list));
    }
    found
}

fn accepted(found: &Found) -> Part {
    let mut part = Part::default();
    part.accept(found, true, "rustc 1.96.0", "first");
    part
}

#[test]
fn nothing_changed() {
    let found = found(&[("k", "sm_80", &[("barrier", 1)]), ("k", "sm_90", &[])]);
    let comparison = accepted(&found).compare(&found, true, "rustc 1.96.0");
    assert_eq!(comparison, Comparison::default());
}

#[test]
fn changes_are_told_old_to_new() {
    let old = found(&[(
        "k",
        "sm_90",
        &[("barrier", 1), ("load.global", 4), ("vote", 2)],
    )]);
    let new = found(&[(
        "k",
        "sm_90",
        &[("barrier", 9), ("load.global.v4", 1), ("vote", 2)],
    )]);
    let comparison = accepted(&old).compare(&new, true, "rustc 1.96.0");
    assert_eq!(
        comparison.errors,
        [
            "k (sm_90): barrier 1 -> 9",
            "k (sm_90): load.global 4 -> 0",
            "k (sm_90): load.global.v4 0 -> 1"
        ]
    );
    assert!(comparison.warnings.is_empty());
}

#[test]
fn under_another_compiler_only_firm_kinds_fail() {
    let old = found(&[("k", "sm_90", &[("barrier", 1), ("load.global", 4)])]);
    let new = found(&[("k", "sm_90", &[("barrier", 9), ("load.global", 5)])]);
    let comparison = accepted(&old).compare(&new, true, "rustc 1.97.0");
    assert_eq!(comparison.errors, ["k (sm_90): barrier 1 -> 9"]);
    assert!(comparison.warnings[0].contains("made with rustc 1.96.0, this PTX with rustc 1.97.0"));
    assert_eq!(comparison.warnings[1..], ["k (sm_90): load.global 4 -> 5"]);
}

#[test]
fn entries_and_architectures_come_and_go() {
    let old = found(&[
        ("gone", "sm_90", &[]),
        ("k", "sm_80", &[]),
        ("k", "sm_90", &[]),
    ]);
    let new = found(&[
        ("new", "sm_90", &[]),
        ("k", "sm_90", &[]),
        ("k", "sm_100", &[]),
    ]);
    let part = accepted(&old);
    assert_eq!(
        part.compare(&new, true, "rustc 1.96.0").errors,
        [
            "k (sm_100): not in the snapshot",
            "k (sm_80): no PTX",
            "new: not in the snapshot",
            "gone: in the snapshot, but no entry point"
        ]
    );
    // With --module, what was not looked at is not missing.
    assert_eq!(
        part.compare(&new, false, "rustc 1.96.0").errors,
        [
            "k (sm_100): not in the snapshot",
            "new: not in the snapshot"
        ]
    );
}

#[test]
fn accepting_keeps_exceptions() {
    let mut part = accepted(&found(&[("k", "sm_90", &[]), ("other", "sm_90", &[])]));
    part.entries
        .get_mut("k")
        .unwrap()
        .divergent_ok
        .push(exception("shfl", 1, "why"));
    let new = found(&[("k", "sm_90", &[("vote", 1)])]);
    part.accept(&new, false, "rustc 1.97.0", "second");
    assert!(part.entries.contains_key("other"));
    part.accept(&new, true, "rustc 1.97.0", "second");
    assert!(!part.entries.contains_key("other"));
    assert_eq!(part.entries["k"].divergent_ok.len(), 1);
    assert_eq!(part.entries["k"].counts["sm_90"], counts(&[("vote", 1)]));
    assert_eq!(
        (part.compiler.as_str(), part.reason.as_str()),
        ("rustc 1.97.0", "second")
    );
}

fn exception(instruction: &str, count: usize, why: &str) -> Exception {
    Exception {
        instruction: instruction.to_owned(),
        count,
        why: why.to_owned(),
    }
}

fn finding(instruction: &str, excusable: bool) -> Finding {
    Finding {
        instruction: instruction.to_owned(),
        line: 1,
        excusable,
        message: String::new(),
    }
}

#[test]
fn an_exception_covers_its_number_and_no_barrier() {
    let findings = || vec![finding("shfl.sync.idx.b32", true); 2];
    let (stay, complaints) = excuse(&[exception("shfl.sync.idx", 2, "leader")], findings());
    assert!(stay.is_empty() && complaints.is_empty());
    let (stay, _) = excuse(&[exception("shfl.sync.idx", 1, "leader")], findings());
    assert_eq!(stay.len(), 1);
    let (stay, complaints) = excuse(&[exception("vote", 1, "leader")], findings());
    assert_eq!(stay.len(), 2);
    assert_eq!(
        complaints,
        ["the exception for `vote` covers nothing; take it out"]
    );
    let (stay, _) = excuse(
        &[exception("bar", 1, "leader")],
        vec![finding("bar.sync", false)],
    );
    assert_eq!(stay.len(), 1);
    let (_, complaints) = excuse(&[exception("shfl", 2, " ")], findings());
    assert_eq!(complaints, ["the exception for `shfl` does not say why"]);
}

#[test]
fn the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    assert_eq!(Snapshot::load(&path).unwrap(), Snapshot::default());
    let mut part = accepted(&found(&[("k", "sm_90", &[("vote", 1), ("barrier", 2)])]));
    part.entries
        .get_mut("k")
        .unwrap()
        .divergent_ok
        .push(exception("shfl", 1, "why"));
    let snapshot = Snapshot([("nvptx".to_owned(), part)].into());
    snapshot.save(&path).unwrap();
    assert_eq!(Snapshot::load(&path).unwrap(), snapshot);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.find("\"barrier\": 2").unwrap() < text.find("\"vote\": 1").unwrap());
    assert!(text.ends_with("}\n"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    for junk in ["", "[]", &text.replace("reason", "raeson")] {
        std::fs::write(&path, junk).unwrap();
        let error = Snapshot::load(&path).unwrap_err().to_string();
        assert!(error.ends_with("snapshot.json is no snapshot"), "{error}");
    }
}
