//! Files that the user names twice.

use std::ffi::OsString;
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
        let target = place(output.1);
        let is_read = |input: &&Named<'_>| {
            // Reading follows links, so what the last one leads to must stay, too.
            let end = input.1.canonicalize().map(|end| place(&end));
            place(input.1) == target || end.is_ok_and(|end| end == target)
        };
        let mut written = outputs[..nth].iter();
        let other = (inputs.iter().find(is_read))
            .or_else(|| written.find(|other| place(other.1) == target))?;
        Some((describe(output), describe(other)))
    })
}

fn describe((option, path): &Named<'_>) -> String {
    format!("{option} {}", path.display())
}

/// Where a file is, or would be: its folder without links and detours, and its name there.
/// A link in the last place is a file of its own, which a rename replaces.
fn place(path: &Path) -> (PathBuf, Option<OsString>) {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    (folder, path.file_name().map(OsString::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_link_to_an_output_is_that_output() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a.npy"), folder.path().join("link.npy"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let same = |output: &Path, input: &Path| {
            overwritten(&[("--out", output)], &[("--a", input)]).is_some()
        };
        assert!(same(&file, &link) && same(&file, &file) && same(&link, &link));
        // The link is replaced, what it led to stays.
        assert!(!same(&link, &file));
        let outputs = [("--json", file.as_path()), ("--plot", file.as_path())];
        assert!(overwritten(&outputs, &[]).is_some());
    }
}
