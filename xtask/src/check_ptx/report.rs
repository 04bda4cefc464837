//! What the command says: tables for people, JSON for scripts.

use super::converge::Finding;
use super::count::Counts;
use super::ptxas::Usage;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// All results.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The code generator.
    pub codegen: String,
    /// The compiler that made the PTX.
    pub compiler: String,
    /// The assembler, if it was run.
    pub ptxas: Option<String>,
    /// Counts, by entry point and the architecture of the PTX.
    pub entries: Vec<EntryRow>,
    /// What the entry points take, by architecture of the PTX and of the machine code.
    pub assembled: Vec<AssembledRow>,
    /// What fails the check.
    pub errors: Vec<String>,
    /// What does not.
    pub warnings: Vec<String>,
}

/// One entry point in one PTX file.
#[derive(Clone, Debug, Serialize)]
pub struct EntryRow {
    /// The PTX module.
    pub module: String,
    /// The entry point.
    pub entry: String,
    /// The `.target` of the PTX.
    pub ptx: String,
    /// Instructions by kind.
    pub counts: Counts,
    /// Convergent instructions that threads are missing at, without the excused ones.
    pub divergent: Vec<Finding>,
}

/// One entry point assembled for one architecture.
#[derive(Clone, Debug, Serialize)]
pub struct AssembledRow {
    /// The PTX module.
    pub module: String,
    /// The entry point.
    pub entry: String,
    /// The `.target` of the PTX.
    pub ptx: String,
    /// The architecture assembled for.
    pub architecture: u32,
    /// What ptxas says.
    #[serde(flatten)]
    pub usage: Usage,
    /// Registers it may take, by its launch bounds; none for a kernel that is no entry
    /// point of gpu-kernels.
    pub register_budget: Option<u32>,
    /// Bytes that it may spill.
    pub spills_ok: u32,
}

impl AssembledRow {
    /// What is wrong with it, if anything.
    pub fn fault(&self) -> Option<String> {
        let usage = &self.usage;
        let mut faults = Vec::new();
        if usage.spill_stores.max(usage.spill_loads) > self.spills_ok {
            faults.push(format!(
                "spills {} bytes of stores and {} of loads",
                usage.spill_stores, usage.spill_loads
            ));
        }
        if usage.stack > self.spills_ok {
            faults.push(format!("has a stack frame of {} bytes", usage.stack));
        }
        if let Some(budget) = self.register_budget.filter(|&b| usage.registers > b) {
            faults.push(format!(
                "takes {} registers, and its launch bounds allow {budget}",
                usage.registers
            ));
        }
        (!faults.is_empty()).then(|| {
            format!(
                "{} ({} for sm_{}): {}",
                self.entry,
                self.ptx,
                self.architecture,
                faults.join("; ")
            )
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Instructions in the PTX ({}, {})",
            self.codegen, self.compiler
        )?;
        writeln!(f, "{}", self.count_table())?;
        if let Some(version) = &self.ptxas {
            writeln!(f, "\nRegisters a thread, by ptxas {version}")?;
            writeln!(f, "{}", self.register_table())?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        for error in &self.errors {
            writeln!(f, "error: {error}")?;
        }
        Ok(())
    }
}

impl Report {
    /// A row for each entry point, one for all its PTX files that count the same; a column
    /// for each kind that occurs.
    fn count_table(&self) -> Table {
        let kinds: BTreeSet<&String> = self.entries.iter().flat_map(|e| e.counts.keys()).collect();
        let headings = kinds.iter().map(|kind| kind.replace(['.', '_'], "\n"));
        let mut table = table(
            ["entry", "ptx"]
                .map(str::to_owned)
                .into_iter()
                .chain(headings),
        );
        let mut rows: BTreeMap<(&str, Vec<u64>), Vec<&str>> = BTreeMap::new();
        for row in &self.entries {
            let counts = kinds
                .iter()
                .map(|k| row.counts.get(*k).copied().unwrap_or(0));
            let key = (row.entry.as_str(), counts.collect());
            rows.entry(key).or_default().push(&row.ptx);
        }
        for ((entry, counts), ptx) in rows {
            let mut cells = vec![entry.to_owned(), ptx.join(" ")];
            cells.extend(counts.into_iter().map(dash_for_zero));
            table.add_row(cells);
        }
        align(table)
    }

    /// A row for each entry point and PTX file; a column for each architecture.
    fn register_table(&self) -> Table {
        let architectures: BTreeSet<u32> = self.assembled.iter().map(|r| r.architecture).collect();
        let mut headings = vec!["entry", "ptx", "budget", "shared", "barriers"]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        headings.extend(architectures.iter().map(|a| format!("sm_{a}")));
        let mut table = table(headings);
        let mut rows: BTreeMap<(&str, &str), Vec<&AssembledRow>> = BTreeMap::new();
        for row in &self.assembled {
            rows.entry((&row.entry, &row.ptx)).or_default().push(row);
        }
        for ((entry, ptx), row) in rows {
            let most = |of: fn(&Usage) -> u32| row.iter().map(|r| of(&r.usage)).max().unwrap_or(0);
            let budget = row[0].register_budget;
            let mut cells = vec![
                entry.to_owned(),
                ptx.to_owned(),
                budget.map_or("-".to_owned(), |b| b.to_string()),
                dash_for_zero(most(|u| u.shared).into()),
                dash_for_zero(most(|u| u.barriers).into()),
            ];
            cells.extend(architectures.iter().map(|&architecture| {
                let cell = row.iter().find(|r| r.architecture == architecture);
                let fault = |r: &AssembledRow| if r.fault().is_some() { "!" } else { "" };
                cell.map_or(String::new(), |r| {
                    format!("{}{}", r.usage.registers, fault(r))
                })
            }));
            table.add_row(cells);
        }
        align(table)
    }
}

fn dash_for_zero(count: u64) -> String {
    match count {
        0 => "-".to_owned(),
        count => count.to_string(),
    }
}

fn table(headings: impl IntoIterator<Item = String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(headings.into_iter().collect::<Vec<_>>());
    table
}

/// Names to the left, numbers to the right.
fn align(mut table: Table) -> Table {
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
