//! Finds the driver's library, once, and the functions in it. Never unloads it.

use crate::{NO_DEVICE, NOT_FOUND};
use libloading::Library;
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::sync::OnceLock;

/// Names a library to load in place of the system's driver.
const OVERRIDE: &str = "FERROSEQ_LIBCUDA";
/// What NVIDIA's driver installs; the second name only where the first link is missing.
const NAMES: &[&str] = &["libcuda.so.1", "libcuda.so"];

/// Where the driver was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// The name under which it was loaded.
    pub library: String,
}

/// Why there is no driver: each name that was tried, and what the loader said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Name and message.
    pub tried: Vec<(String, String)>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no NVIDIA driver library was found")?;
        for (at, (name, message)) in self.tried.iter().enumerate() {
            // The loader's message usually starts with the name.
            let message = message
                .strip_prefix(name)
                .map_or(message.as_str(), |rest| rest.trim_start_matches(": "));
            write!(f, "{}{name}: {message}", if at == 0 { " (" } else { "; " })?;
        }
        if !self.tried.is_empty() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl Error for Missing {}

/// Whether the driver's library is there. Loads it on first use.
///
/// # Errors
/// [`Missing`], with what was tried.
pub fn status() -> Result<DriverInfo, Missing> {
    match driver() {
        Ok((_, info)) => Ok(info.clone()),
        Err(missing) => Err(missing.clone()),
    }
}

/// The driver's function `name`, or the code to return in its place.
///
/// # Safety
/// `T` is a function pointer of that function's prototype.
pub(crate) unsafe fn symbol<T: Copy>(name: &str) -> Result<T, i32> {
    let (library, _) = driver().as_ref().map_err(|_| NO_DEVICE)?;
    // SAFETY: the caller's promise; the library stays loaded, so the pointer stays good.
    let symbol = unsafe { library.get::<T>(name) }.map_err(|_| NOT_FOUND)?;
    Ok(*symbol)
}

fn driver() -> &'static Result<(Library, DriverInfo), Missing> {
    static DRIVER: OnceLock<Result<(Library, DriverInfo), Missing>> = OnceLock::new();
    DRIVER.get_or_init(|| match std::env::var_os(OVERRIDE) {
        Some(name) if !name.is_empty() => load([name]),
        _ => load(NAMES.iter().map(OsString::from)),
    })
}

fn load(names: impl IntoIterator<Item = OsString>) -> Result<(Library, DriverInfo), Missing> {
    let mut tried = Vec::new();
    for name in names {
        let shown = name.to_string_lossy().into_owned();
        // SAFETY: runs the library's initialisers. It is NVIDIA's driver, or what the user
        // named in its place.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok((library, DriverInfo { library: shown })),
            Err(error) => tried.push((shown, loader_words(&error))),
        }
    }
    Err(Missing { tried })
}

/// The system's own message, which `libloading` keeps as the source of its error.
fn loader_words(error: &libloading::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named_with_the_loaders_words() {
        let name = "libferroseq-no-such-driver.so";
        let missing = load([OsString::from(name)]).expect_err("no such file");
        let text = missing.to_string();
        assert!(
            text.starts_with("no NVIDIA driver library was found ("),
            "{text}"
        );
        assert_eq!(text.matches(name).count(), 1, "{text}");
        assert!(!text.contains("dlopen failed"), "{text}");
    }
}
