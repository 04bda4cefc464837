//! Entry points in PTX text: finds them, checks them against the launch contract, writes
//! their launch bounds in. Text to text; touches no file.

use anyhow::{Context, Result, bail, ensure};
use gpu_kernels::simt::{EntryInfo, LaunchBounds};

/// An entry point as the compiler wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPoint {
    /// Its symbol.
    pub name: String,
    /// Bytes of each parameter.
    pub params: Vec<usize>,
    /// Where its parameter list ends: the byte after the `)`.
    end: usize,
}

/// The entry points of a module, in order.
pub fn entry_points(ptx: &str) -> Result<Vec<EntryPoint>> {
    let mut found = Vec::new();
    let mut at = 0;
    for line in ptx.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let code = line.split("//").next().unwrap_or_default();
        let Some(keyword) = code.find(".entry ") else {
            continue;
        };
        let open = start + keyword + ".entry ".len();
        found.push(entry_point(ptx, open)?);
    }
    Ok(found)
}

/// Reads `name(params)` at byte `start`.
fn entry_point(ptx: &str, start: usize) -> Result<EntryPoint> {
    let rest = &ptx[start..];
    let (name, list) = rest
        .split_once('(')
        .context("an .entry in the PTX has no parameter list")?;
    let name = name.trim().to_owned();
    let close = list
        .find(')')
        .with_context(|| format!("the parameter list of {name} does not end"))?;
    let params = list[..close]
        .split(',')
        .map(str::trim)
        .filter(|param| !param.is_empty())
        .map(|param| param_size(param).with_context(|| format!("{name} has a parameter `{param}`")))
        .collect::<Result<_>>()?;
    let end = start + (rest.len() - list.len()) + close + 1;
    Ok(EntryPoint { name, params, end })
}

/// Bytes of `.param .align 8 .b8 name[104]` or `.param .u64 name`.
fn param_size(param: &str) -> Result<usize> {
    let words: Vec<&str> = param.split_whitespace().collect();
    let scalar = words
        .iter()
        .find_map(|word| {
            let digits = word
                .strip_prefix(['.'])?
                .strip_prefix(['b', 'u', 's', 'f'])?;
            digits.parse::<usize>().ok()
        })
        .context("of no size known here")?;
    let count = match words.last().and_then(|name| name.split_once('[')) {
        Some((_, count)) => count
            .trim_end_matches(']')
            .parse()
            .context("whose array has no length")?,
        None => 1,
    };
    Ok(scalar / 8 * count)
}

/// The `.version` of a module.
pub fn version(ptx: &str) -> Result<&str> {
    ptx.lines()
        .find_map(|line| line.strip_prefix(".version "))
        .map(str::trim)
        .context("the PTX has no .version")
}

/// Checks that the module's entry points are those of its family, with parameters of the
/// same size, and returns the text with their launch bounds in it.
pub fn finish(ptx: &str, entries: &[EntryInfo]) -> Result<String> {
    let found = entry_points(ptx)?;
    for entry in entries {
        let times = found.iter().filter(|point| point.name == entry.name);
        match times.count() {
            1 => {}
            0 => bail!("the PTX has no entry point {}", entry.name),
            times => bail!("the PTX has {times} entry points {}", entry.name),
        }
    }
    let mut text = String::with_capacity(ptx.len() + 64 * found.len());
    let mut written = 0;
    for point in &found {
        let name = &point.name;
        let entry = entries
            .iter()
            .find(|entry| entry.name == name)
            .with_context(|| format!("the PTX has an entry point {name} that no family lists"))?;
        ensure!(
            point.params == [entry.param_size],
            "{name} takes parameters of {:?} bytes in the PTX, expected one of {}",
            point.params,
            entry.param_size
        );
        let body = ptx[point.end..]
            .find('{')
            .with_context(|| format!("{name} has no body"))?;
        let between: Vec<&str> = ptx[point.end..point.end + body]
            .lines()
            .flat_map(|line| line.split("//").next())
            .flat_map(str::split_whitespace)
            .collect();
        ensure!(
            between.is_empty(),
            "{name} has directives of its own in the PTX already: {}",
            between.join(" ")
        );
        text += &ptx[written..point.end];
        text += &directives(entry.bounds);
        written = point.end;
    }
    text += &ptx[written..];
    Ok(raise_version(text))
}

/// The PTX version of CUDA 11.8, the oldest whose drivers can be expected.
const VERSION: (u32, u32) = (7, 8);

/// Raises the text's PTX version to [`VERSION`]. LLVM names the oldest that the
/// architecture needs (7.0 for sm_80), but the kernels' assembly has cache hints from later
/// ones; a text of an older version is one of the newer, too.
fn raise_version(text: String) -> String {
    let Some(line) = text.lines().find(|line| line.starts_with(".version ")) else {
        return text;
    };
    let version = line[".version ".len()..].trim().split_once('.');
    let version =
        version.and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    if version.is_none_or(|version| version >= VERSION) {
        return text;
    }
    text.replacen(line, &format!(".version {}.{}", VERSION.0, VERSION.1), 1)
}

/// The text with [`VERSION`] in the place of a later one; `None` if it has no later one.
pub fn lower_version(ptx: &str) -> Option<String> {
    let written = version(ptx).ok()?;
    let (major, minor) = written.split_once('.')?;
    let later = (major.parse().ok()?, minor.parse().ok()?) > VERSION;
    let line = |version: &str| format!(".version {version}");
    let lower = format!("{}.{}", VERSION.0, VERSION.1);
    later.then(|| ptx.replacen(&line(written), &line(&lower), 1))
}

fn directives(bounds: LaunchBounds) -> String {
    let mut text = String::new();
    if bounds.max_threads > 0 {
        text += &format!("\n.maxntid {}, 1, 1", bounds.max_threads);
        if bounds.min_blocks > 0 {
            text += &format!("\n.minnctapersm {}", bounds.min_blocks);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
//
// Generated by LLVM NVPTX Back-End
//
.version 7.8
.target sm_90
.address_size 64

	// .globl	one .entry two(
.visible .entry one(
	.param .align 8 .b8 one_param_0[104]
)
{
	ret;
}
	// .globl	two
.visible .entry two(
	.param .align 4 .b8 two_param_0[8]
)                                       // -- Begin function two
{
	ret;
}
";

    const fn entry(name: &'static str, param_size: usize, threads: u32, blocks: u32) -> EntryInfo {
        EntryInfo {
            name,
            module: "m",
            param_size,
            bounds: LaunchBounds {
                max_threads: threads,
                min_blocks: blocks,
            },
        }
    }

    const ENTRIES: [EntryInfo; 2] = [entry("two", 8, 256, 4), entry("one", 104, 128, 0)];

    fn fails(ptx: &str, entries: &[EntryInfo], words: &str) {
        let error = format!("{:#}", finish(ptx, entries).unwrap_err());
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn entry_points_and_sizes() {
        let found = entry_points(PTX).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|point| (point.name.as_str(), point.params.as_slice()))
            .collect();
        assert_eq!(found, [("one", &[104][..]), ("two", &[8][..])]);
        assert_eq!(version(PTX).unwrap(), "7.8");
    }

    #[test]
    fn scalars_and_no_parameters() {
        let ptx = ".entry a(\n .param .u64 .ptr .global .align 4 p,\n .param .f32 x\n)\n{}\n.weak .entry b()\n{}\n";
        let found = entry_points(ptx).unwrap();
        assert_eq!(found[0].params, [8, 4]);
        assert_eq!(found[1].params, [0; 0]);
    }

    #[test]
    fn bounds_go_between_the_list_and_the_body() {
        let text = finish(PTX, &ENTRIES).unwrap();
        assert!(
            text.contains("one_param_0[104]\n)\n.maxntid 128, 1, 1\n{"),
            "{text}"
        );
        let second = "two_param_0[8]\n)\n.maxntid 256, 1, 1\n.minnctapersm 4 ";
        assert!(text.contains(second), "{text}");
        assert_eq!(text.matches(".minnctapersm").count(), 1);
        let without: String = text
            .replace("\n.maxntid 128, 1, 1", "")
            .replace("\n.maxntid 256, 1, 1\n.minnctapersm 4", "");
        assert_eq!(without, PTX);
    }

    #[test]
    fn an_old_version_is_raised_and_a_new_one_kept() {
        let entries = [entry("one", 104, 0, 0), entry("two", 8, 0, 0)];
        let old = PTX.replace(".version 7.8", ".version 7.0");
        assert_eq!(finish(&old, &entries).unwrap(), PTX);
        let new = PTX.replace(".version 7.8", ".version 8.10");
        assert_eq!(finish(&new, &entries).unwrap(), new);
    }

    #[test]
    fn a_later_version_is_lowered() {
        let later = PTX.replace(".version 7.8", ".version 9.0");
        assert_eq!(lower_version(&later).as_deref(), Some(PTX));
        assert_eq!(lower_version(PTX), None);
        assert_eq!(lower_version("no version"), None);
    }

    #[test]
    fn no_bounds_no_directives() {
        let entries = [entry("one", 104, 0, 3), entry("two", 8, 0, 0)];
        assert_eq!(finish(PTX, &entries).unwrap(), PTX);
    }

    #[test]
    fn entry_points_must_agree_with_the_list() {
        let more = [ENTRIES[0], ENTRIES[1], entry("three", 8, 1, 0)];
        fails(PTX, &more, "no entry point three");
        fails(PTX, &ENTRIES[..1], "entry point one that no family lists");
        fails(
            &PTX.replace("two", "one"),
            &ENTRIES[1..],
            "2 entry points one",
        );
    }

    #[test]
    fn parameters_must_agree_with_the_struct() {
        let entries = [ENTRIES[0], entry("one", 112, 128, 0)];
        fails(
            PTX,
            &entries,
            "one takes parameters of [104] bytes in the PTX, expected one of 112",
        );
        let two = PTX.replace(
            "one_param_0[104]",
            "one_param_0[104],\n\t.param .u32 one_param_1",
        );
        fails(&two, &ENTRIES, "[104, 4] bytes");
        fails(
            &PTX.replace("[104]", "[x]"),
            &ENTRIES,
            "array has no length",
        );
        fails(
            &PTX.replace(".b8 one", ".opaque one"),
            &ENTRIES,
            "no size known",
        );
    }

    #[test]
    fn cut_off_text() {
        let at = PTX.find("one_param_0").unwrap();
        fails(&PTX[..at], &ENTRIES[1..], "does not end");
        let at = PTX.find('{').unwrap();
        fails(&PTX[..at], &ENTRIES[1..], "has no body");
        fails(".entry x\n", &[], "no parameter list");
    }

    #[test]
    fn bounds_of_the_compiler_are_not_doubled() {
        let ptx = PTX.replacen(")\n{", ")\n.maxntid 64\n{", 1);
        fails(&ptx, &ENTRIES, "directives of its own");
    }
}
