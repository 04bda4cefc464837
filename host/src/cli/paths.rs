//! Files that the user names twice.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// An option and the file it names.
pub type Named<'a> = (&'static str, &'a Path);

/// The options that were given.
pub fn named<'a>(options: &[(&'static str, &'a Option<PathBuf>)]) -> Vec<Named<'a>> {
    let given = |&(option, path): &(_, &'a Option<PathBuf>)| Some((option, path.as_deref()?));
    options.iter().filter_map(given).collect()
}

/// The first output that would replace an input or another output, and the other's option.
pub fn overwritten(outputs: &[Named<'_>], inputs: &[Named<'_>]) -> Option<(String, String)> {
    outputs.iter().enumerate().find_map(|(nth, output)| {
        let mut others = inputs.iter().chain(&outputs[..nth]);
        let other = others.find(|other| place(other.1) == place(output.1))?;
        Some((describe(output), describe(other)))
    })
}

fn describe((option, path): &Named<'_>) -> String {
    format!("{option} {}", path.display())
}

/// Where a file is, or would be: its folder without links and detours, and its name there.
/// A link in the last place is a file of its own, which a rename replaces.
fn place(path: &Path) -> (PathBuf, Option<&OsStr>) {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    (folder, path.file_name())
}
