//! Files that appear whole or not at all.

use super::{Error, Result};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// A written file that does not have its name yet. Dropped, it is gone.
#[derive(Debug)]
pub struct Staged {
    file: NamedTempFile,
    path: PathBuf,
}

impl Staged {
    /// A temporary in the folder of `path`, with the permissions of any new file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(path: &Path) -> Result<Self> {
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut builder = Builder::new();
        builder.prefix(".ferroseq-").suffix(".tmp");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The process's umask applies.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder
            .tempfile_in(folder)
            .map_err(|source| io_error("create", path, source))?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// Writes more of it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        let result = self.file.write_all(bytes);
        result.map_err(|source| io_error("write", &self.path, source))
    }

    pub(super) fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Where the bytes are until the rename.
    pub(super) fn temporary(&self) -> &Path {
        self.file.path()
    }

    /// The name it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames it, over whatever has that name.
    ///
    /// # Errors
    /// [`Error::Io`]; the temporary is gone then.
    pub fn commit(self) -> Result<()> {
        match self.file.persist(&self.path) {
            Ok(_) => Ok(()),
            Err(error) => Err(io_error("write", &self.path, error.error)),
        }
    }
}

/// Renames several files that belong together, after a look at whether that can work. If
/// one fails all the same, those before it are removed.
///
/// # Errors
/// [`Error::Io`] of the first that failed.
pub fn commit_all(files: Vec<Staged>) -> Result<()> {
    if let Some(file) = files.iter().find(|file| file.path.is_dir()) {
        let error = std::io::Error::from(std::io::ErrorKind::IsADirectory);
        return Err(io_error("write", &file.path, error));
    }
    let mut done = Vec::new();
    for file in files {
        let path = file.path.clone();
        if let Err(error) = file.commit() {
            for path in done {
                // The first error is the one that counts.
                let _ = std::fs::remove_file(path);
            }
            return Err(error);
        }
        done.push(path);
    }
    Ok(())
}

pub(super) fn io_error(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
