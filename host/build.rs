//! Embeds the PTX that `cargo xtask build-ptx` left in `target/ptx` (or in the folder that
//! `FERROSEQ_PTX_DIR` names): compresses it into `OUT_DIR` (a tenth of its size) and writes the
//! list that `src/embedded.rs` includes. Where nothing was built yet the list is empty.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn main() {
    if let Err(message) = embed() {
        // Cargo shows this as an error of this crate, and stops.
        println!("cargo::error={message}");
    }
}

fn embed() -> Result<(), String> {
    let source = ptx_folder()?;
    // Without the folder cargo would run this at every build, and build the host anew.
    if let Err(error) = fs::create_dir_all(&source) {
        println!(
            "cargo::warning=no PTX embedded: cannot create {}: {error}",
            source.display()
        );
    }
    println!("cargo::rerun-if-env-changed=FERROSEQ_PTX_DIR");
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_DIR");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed=build.rs");

    let copies = PathBuf::from(variable("OUT_DIR")?).join("ptx");
    if copies.exists() {
        fs::remove_dir_all(&copies).map_err(said("cannot remove", &copies))?;
    }
    let mut modules = String::new();
    let mut manifests = String::new();
    for codegen in entries(&source)? {
        let manifest = codegen.join("manifest.json");
        // build-ptx writes the manifest last: without it the PTX is not whole.
        if !manifest.is_file() {
            continue;
        }
        let name = name(&codegen)?;
        println!("cargo::rerun-if-changed={}", manifest.display());
        let copy = copied(&manifest, &copies.join(&name))?;
        manifests += &format!("    ({name:?}, include_str!({copy:?})),\n");
        for folder in entries(&codegen)? {
            let Some(arch) = architecture(&folder) else {
                continue;
            };
            for file in entries(&folder)? {
                if file.extension().is_some_and(|extension| extension == "ptx") {
                    let folder = copies.join(&name).join(format!("sm_{arch}"));
                    let copy = compressed(&file, &folder)?;
                    let module = file.file_stem().unwrap_or_default().to_string_lossy();
                    modules += &format!(
                        "    Module {{ codegen: {name:?}, arch: {arch}, name: {module:?}, \
                         zlib: include_bytes!({copy:?}) }},\n"
                    );
                }
            }
        }
    }
    let code = format!(
        "pub(crate) static MODULES: &[Module] = &[\n{modules}];\n\
         pub(crate) static MANIFESTS: &[(&str, &str)] = &[\n{manifests}];\n"
    );
    let list = copies.with_file_name("embedded.rs");
    fs::write(&list, code).map_err(said("cannot write", &list))
}

/// Where xtask writes the PTX: the same rule as in `xtask/src/workspace.rs`.
fn ptx_folder() -> Result<PathBuf, String> {
    let host = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let root = host.parent().ok_or("host/ has no parent folder")?;
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    Ok(match (set("FERROSEQ_PTX_DIR"), set("CARGO_TARGET_DIR")) {
        (Some(folder), _) => root.join(folder),
        (None, Some(target)) => root.join(target).join("ptx"),
        (None, None) => root.join("target").join("ptx"),
    })
}

/// The number of a folder `sm_90`.
fn architecture(folder: &Path) -> Option<u32> {
    let name = folder.is_dir().then(|| folder.file_name())??;
    name.to_str()?.strip_prefix("sm_")?.parse().ok()
}

/// What is in a folder, sorted, so that the list is the same on every machine.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read = || -> io::Result<Vec<PathBuf>> {
        let mut paths: Vec<PathBuf> = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            entries => entries?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<io::Result<_>>()?,
        };
        paths.sort();
        Ok(paths)
    };
    read().map_err(said("cannot read", folder))
}

/// Copies a file into a folder of `OUT_DIR`, so that a build sees one state of it.
fn copied(file: &Path, folder: &Path) -> Result<PathBuf, String> {
    let copy = folder.join(file.file_name().unwrap_or_default());
    fs::create_dir_all(folder)
        .and_then(|()| fs::copy(file, &copy))
        .map_err(said("cannot copy", file))?;
    Ok(copy)
}

/// [`copied`], as a zlib stream.
fn compressed(file: &Path, folder: &Path) -> Result<PathBuf, String> {
    let copy = folder.join(file.with_extension("zlib").file_name().unwrap_or_default());
    let write = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let mut to = ZlibEncoder::new(fs::File::create(&copy)?, Compression::default());
        io::copy(&mut fs::File::open(file)?, &mut to)?;
        to.finish()?;
        Ok(())
    };
    write().map_err(said("cannot compress", file))?;
    Ok(copy)
}

fn name(folder: &Path) -> Result<String, String> {
    let name = folder.file_name().and_then(|name| name.to_str());
    Ok(name.ok_or("a PTX folder has no readable name")?.to_owned())
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|error| format!("{name}: {error}"))
}

fn said(what: &str, path: &Path) -> impl FnOnce(io::Error) -> String {
    let prefix = format!("{what} {}", path.display());
    move |error| format!("{prefix}: {error}")
}
