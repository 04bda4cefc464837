//! Verdicts and output.

use crate::check_ptx::ptxas::Usage;
use crate::check_ptx::report::{AssembledRow, EntryRow, Report};

fn row(usage: Usage, register_budget: Option<u32>) -> AssembledRow {
    AssembledRow {
        module: "m".to_owned(),
        entry: "k".to_owned(),
        ptx: "sm_80".to_owned(),
        architecture: 90,
        usage,
        register_budget,
        spills_ok: 0,
    }
}

#[test]
fn spills_within_the_exception_pass() {
    let row = |spills| AssembledRow {
        spills_ok: 16,
        ..row(usage(64, spills, spills), Some(64))
    };
    assert_eq!(row(16).fault(), None);
    let fault = row(17).fault().unwrap();
    assert!(fault.contains("spills 17 bytes"), "{fault}");
    assert!(fault.contains("stack frame of 17 bytes"), "{fault}");
}

fn usage(registers: u32, spill_stores: u32, stack: u32) -> Usage {
    Usage {
        registers,
        spill_stores,
        stack,
        ..Usage::default()
    }
}

#[test]
fn faults() {
    assert_eq!(row(usage(64, 0, 0), Some(64)).fault(), None);
    assert_eq!(row(usage(255, 0, 0), None).fault(), None);
    assert_eq!(
        row(usage(65, 0, 0), Some(64)).fault().unwrap(),
        "k (sm_80 for sm_90): takes 65 registers, and its launch bounds allow 64"
    );
    assert_eq!(
        row(usage(64, 8, 16), Some(64)).fault().unwrap(),
        "k (sm_80 for sm_90): spills 8 bytes of stores and 0 of loads; has a stack frame of 16 bytes"
    );
}

fn report() -> Report {
    let entry = |ptx: &str, barriers: u64| EntryRow {
        module: "m".to_owned(),
        entry: "k".to_owned(),
        ptx: ptx.to_owned(),
        counts: [
            ("barrier".to_owned(), barriers),
            ("load.global.v4".to_owned(), 2),
        ]
        .into(),
        divergent: Vec::new(),
    };
    Report {
        codegen: "nvptx".to_owned(),
        compiler: "rustc".to_owned(),
        ptxas: Some("13.0".to_owned()),
        entries: vec![entry("sm_80", 1), entry("sm_90", 1), entry("sm_100", 3)],
        assembled: vec![
            row(usage(40, 0, 0), Some(64)),
            AssembledRow {
                architecture: 100,
                ..row(usage(70, 0, 0), Some(64))
            },
        ],
        errors: vec!["bad".to_owned()],
        warnings: Vec::new(),
    }
}

#[test]
fn tables() {
    let text = report().to_string();
    let line = |start: &str| {
        let lines = text
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
        let mut lines = lines.filter(|l| l.starts_with(start));
        lines
            .next()
            .unwrap_or_else(|| panic!("no line {start} in\n{text}"))
    };
    assert_eq!(line("entry ptx "), "entry ptx barrier load");
    // Files that count the same share a row.
    assert_eq!(line("k sm_80 sm_90 "), "k sm_80 sm_90 1 2");
    assert_eq!(line("k sm_100 "), "k sm_100 3 2");
    assert_eq!(
        line("entry ptx budget "),
        "entry ptx budget shared barriers sm_90 sm_100"
    );
    assert_eq!(line("k sm_80 64 "), "k sm_80 64 - - 40 70!");
    assert_eq!(line("error"), "error: bad");
}

#[test]
fn json() {
    let value = serde_json::to_value(report()).unwrap();
    assert_eq!(value["entries"][2]["counts"]["barrier"], 3);
    assert_eq!(value["assembled"][0]["registers"], 40);
    assert_eq!(value["assembled"][0]["register_budget"], 64);
    assert_eq!(value["errors"][0], "bad");
}
