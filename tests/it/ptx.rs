//! The PTX that the code generators made of the kernels: every entry point is there with the
//! parameters the host passes, and no barrier, shuffle or vote was lost or copied. Compilers have
//! done both, and ptxas accepts the result.

use crate::workspace::ptx_folder;
use ferroseq_tests::devices::skipped;
use gpu_kernels::linear_scan;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What all or part of a warp must execute together, counted in one entry point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Convergent {
    barriers: usize,
    shuffles: usize,
    votes: usize,
}

/// What the kernel's source asks for, after inlining: every entry point is `scan_tiles` for
/// another type, layout or tile. Ten barriers, three of them with a vote of the block (the
/// first ticket, the tile's copy, the maps and whether the state before the tile is missing,
/// the look-back's reach, its maps, the choice of the serial way, each of its turns, its end,
/// the scan, the results' copy); the votes are the soundness of the maps and the two of the
/// look-back.
const SCAN_TILES: Convergent = Convergent {
    barriers: 10,
    shuffles: 0,
    votes: 3,
};

/// An entry point as the PTX has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    parameter_bytes: usize,
    convergent: Convergent,
}

#[test]
fn linear_scan_entries() {
    let files = files(linear_scan::MODULE);
    if files.is_empty() {
        return skipped("PTX checks (no PTX here; `cargo xtask build-ptx` makes it)");
    }
    for (architecture, file) in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.display();
        let target = text.lines().find_map(|line| line.strip_prefix(".target "));
        assert_eq!(target.map(str::trim), Some(architecture.as_str()), "{name}");
        let expected: BTreeMap<String, Entry> = linear_scan::ENTRIES
            .iter()
            .map(|entry| {
                let found = Entry {
                    parameter_bytes: entry.param_size,
                    convergent: SCAN_TILES,
                };
                (entry.name.to_owned(), found)
            })
            .collect();
        let found = entries(&text);
        assert_eq!(found, expected, "{name}");
        let inside = found.values().fold(Convergent::default(), |sum, entry| {
            sum.plus(entry.convergent)
        });
        let all = text
            .lines()
            .map(convergent)
            .fold(Convergent::default(), Convergent::plus);
        assert_eq!(all, inside, "{name}: some are outside the entry points");
    }
}

/// Every family: the entry points that the host launches, with the parameters that it passes.
#[test]
fn entries_of_every_family() {
    for family in gpu_kernels::FAMILIES {
        for (_, file) in files(family.module) {
            let text = std::fs::read_to_string(&file).unwrap();
            let found: BTreeMap<String, usize> = entries(&text)
                .into_iter()
                .map(|(name, entry)| (name, entry.parameter_bytes))
                .collect();
            let expected = family.entries.iter();
            let expected = expected.map(|entry| (entry.name.to_owned(), entry.param_size));
            assert_eq!(found, expected.collect(), "{}", file.display());
        }
    }
}

/// `(architecture, file)` of a module, for every code generator and architecture built.
fn files(module: &str) -> Vec<(String, PathBuf)> {
    let Some(folder) = ptx_folder() else {
        return Vec::new();
    };
    // As in the binary: without its manifest the PTX is not whole, or not of this source.
    let whole = |folder: &PathBuf| folder.join("manifest.json").is_file();
    ["nvptx", "nvvm"]
        .map(|codegen| folder.join(codegen))
        .iter()
        .filter(|folder| whole(folder))
        .flat_map(std::fs::read_dir)
        .flatten()
        .flatten()
        .map(|entry| {
            let architecture = entry.file_name().to_string_lossy().into_owned();
            (architecture, entry.path().join(format!("{module}.ptx")))
        })
        .filter(|(_, file)| file.is_file())
        .collect()
}

/// The entry points of a PTX file.
fn entries(ptx: &str) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    let mut lines = ptx.lines();
    while let Some(line) = lines.next() {
        let Some((_, rest)) = line.split_once(".entry ") else {
            continue;
        };
        let name = rest.split(['(', ' ']).next().unwrap_or_default().to_owned();
        let mut entry = Entry::default();
        let mut depth = 0i32;
        for line in lines.by_ref() {
            if depth == 0 && line.contains(".param ") {
                entry.parameter_bytes += parameter_bytes(line);
            }
            entry.convergent = entry.convergent.plus(convergent(line));
            depth += line.matches('{').count() as i32 - line.matches('}').count() as i32;
            if depth == 0 && line.contains('}') {
                break;
            }
        }
        entries.insert(name, entry);
    }
    entries
}

/// Of `.param .align 8 .b8 name[104]`: 104. Kernels take one struct, so nothing else occurs.
fn parameter_bytes(line: &str) -> usize {
    let size = line
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    size.and_then(|(size, _)| size.parse().ok())
        .unwrap_or_else(|| panic!("a parameter that is no struct: {line}"))
}

/// Whether an instruction is a barrier, a shuffle or a vote.
fn convergent(line: &str) -> Convergent {
    let line = line.trim_start();
    // `@%p1 bar.sync 0;`
    let instruction = match line.strip_prefix('@') {
        Some(predicated) => predicated.split_once(' ').map_or("", |(_, rest)| rest),
        None => line,
    };
    let starts = |names: &[&str]| names.iter().any(|name| instruction.starts_with(name));
    Convergent {
        barriers: usize::from(starts(&["bar.", "barrier."])),
        shuffles: usize::from(starts(&["shfl."])),
        votes: usize::from(starts(&["vote."])),
    }
}

impl Convergent {
    fn plus(self, other: Self) -> Self {
        Self {
            barriers: self.barriers + other.barriers,
            shuffles: self.shuffles + other.shuffles,
            votes: self.votes + other.votes,
        }
    }
}

#[test]
fn the_reader_counts() {
    let ptx = "\
.target sm_90
.visible .entry one(
\t.param .align 8 .b8 one_param_0[96]
)
.maxntid 128
{
\tbar.sync \t0;
\t{ // callseq
\tshfl.sync.up.b32 %r1, %r2, 1, 0, -1;
\t}
\t@%p1 bar.sync 0;
\tvote.sync.ballot.b32 %r3, %p2, -1;
\tbar.red.or.pred %p3, 0, %p2;
\tbar.warp.sync -1;
\tbra $bar_sync;
}
.visible .entry two(.param .align 8 .b8 two_param_0[8])
{
\tret;
}
";
    let found = entries(ptx);
    let one = Entry {
        parameter_bytes: 96,
        convergent: Convergent {
            barriers: 4,
            shuffles: 1,
            votes: 1,
        },
    };
    assert_eq!(found["one"], one);
    assert_eq!(found["two"].convergent, Convergent::default());
}
