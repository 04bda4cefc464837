//! Version numbers of compilers and packages.

use std::fmt;

/// `major.minor.patch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release(pub u32, pub u32, pub u32);

impl Release {
    /// Reads the numbers a version begins with: `1.96.0-nightly`, `1.96.0+dfsg1-1~deb12u2`,
    /// `1:1.96`. `None` unless there are two of them at least.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        // A Debian epoch.
        let text = text.split_once(':').map_or(text, |(_, rest)| rest);
        let mut numbers = text.splitn(3, '.').map(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit());
            part[..digits.unwrap_or(part.len())].parse().ok()
        });
        let (major, minor) = (numbers.next()??, numbers.next()??);
        Some(Self(major, minor, numbers.next().flatten().unwrap_or(0)))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// What `rustc -vV` says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RustcVersion {
    /// Its first line, whole.
    pub text: String,
    /// Its release.
    pub release: Release,
    /// Its LLVM.
    pub llvm: String,
}

impl RustcVersion {
    /// Reads the output of `rustc -vV`.
    pub fn parse(output: &str) -> Option<Self> {
        let field = |name: &str| {
            let lines = output.lines();
            lines
                .filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .next()
        };
        let text = output.lines().next()?.trim().to_owned();
        if !text.starts_with("rustc ") {
            return None;
        }
        Some(Self {
            text,
            release: Release::parse(field("release")?)?,
            llvm: field("LLVM version")?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        for (text, release) in [
            ("1.96.0", Some(Release(1, 96, 0))),
            ("1.96.0-nightly", Some(Release(1, 96, 0))),
            ("1.96.0+dfsg1-1~deb12u2", Some(Release(1, 96, 0))),
            ("1:2.10~rc1", Some(Release(2, 10, 0))),
            (" 1.97.1\n", Some(Release(1, 97, 1))),
            ("1", None),
            ("", None),
            ("(none)", None),
            ("x.y.z", None),
        ] {
            assert_eq!(Release::parse(text), release, "{text:?}");
        }
        assert!(Release(1, 100, 0) > Release(1, 96, 9));
    }

    const DEBIAN: &str = "\
rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)
binary: rustc
commit-hash: ac68faa20c58cbccd01ee7208bf3b6e93a7d7f96
commit-date: 2026-05-25
host: x86_64-unknown-linux-gnu
release: 1.96.0
LLVM version: 22.1.8
";

    #[test]
    fn rustc_versions() {
        let version = RustcVersion::parse(DEBIAN).unwrap();
        assert_eq!(version.release, Release(1, 96, 0));
        assert_eq!(version.llvm, "22.1.8");
        assert!(version.text.ends_with("(built from a source tarball)"));
    }

    #[test]
    fn what_is_no_rustc_has_no_version() {
        assert_eq!(RustcVersion::parse(""), None);
        assert_eq!(RustcVersion::parse("gcc 12.2.0"), None);
        assert_eq!(RustcVersion::parse("rustc 1.96.0\nrelease: ?"), None);
        assert_eq!(
            RustcVersion::parse(&DEBIAN.replace("LLVM version", "GCC version")),
            None
        );
    }
}
