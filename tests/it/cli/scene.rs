//! A temporary folder to run `ferroseq` in, and what a run left behind.

use crate::workspace::ferroseq;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// A folder of its own.
#[derive(Debug)]
pub struct Scene(tempfile::TempDir);

/// What a run of the binary said.
#[derive(Debug)]
pub struct Ran {
    #[expect(dead_code, reason = "printed when a test fails")]
    command: String,
    code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Scene {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With these files in it.
    pub fn with(files: &[(&str, Vec<u8>)]) -> Self {
        let scene = Self::new();
        for (name, contents) in files {
            scene.write(name, contents);
        }
        scene
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, contents: &[u8]) {
        std::fs::write(self.path(name), contents).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Every file there and what it holds.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        std::fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| self.path(name).is_file())
            .map(|name| (name.clone(), self.read(&name)))
            .collect()
    }

    /// The names of the files there, in order.
    pub fn names(&self) -> Vec<String> {
        self.files().into_keys().collect()
    }

    /// Runs `ferroseq` in the folder; the arguments are separated by spaces.
    pub fn run(&self, arguments: &str) -> Ran {
        self.run_with(arguments, &[])
    }

    /// The same in a changed environment.
    pub fn run_with(&self, arguments: &str, environment: &[(&str, &str)]) -> Ran {
        let mut command = Command::new(ferroseq());
        command.envs(environment.iter().copied());
        self.finish(command, arguments)
    }

    /// The same as arguments of another program.
    pub fn run_under(&self, program: &[&str], arguments: &str) -> Ran {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).arg(ferroseq());
        self.finish(command, arguments)
    }

    fn finish(&self, mut command: Command, arguments: &str) -> Ran {
        let output = command
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .output()
            .unwrap();
        Ran {
            command: format!("{command:?}"),
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs what must fail, and checks all that a failure owes its user: what
    /// [`Ran::failed`] says, and the folder as it was.
    pub fn fails(&self, arguments: &str, parts: &[&str]) {
        self.fails_with(arguments, &[], parts);
    }

    /// The same in a changed environment.
    pub fn fails_with(&self, arguments: &str, environment: &[(&str, &str)], parts: &[&str]) {
        let before = self.files();
        let ran = self.run_with(arguments, environment);
        ran.failed(parts);
        let after = self.files();
        assert_eq!(
            after.keys().collect::<Vec<_>>(),
            before.keys().collect::<Vec<_>>(),
            "files came or went: {ran:#?}"
        );
        assert!(after == before, "a file was changed: {ran:#?}");
    }
}

impl Ran {
    /// Checks that it succeeded.
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// Checks that it failed as a program should: exit code 1 or 2, a message with these
    /// parts, no panic, nothing on stdout.
    pub fn failed(&self, parts: &[&str]) {
        assert!(matches!(self.code, Some(1 | 2)), "{self:#?}");
        assert!(!self.stderr.contains("panicked"), "{self:#?}");
        assert!(!self.stderr.contains("RUST_BACKTRACE"), "{self:#?}");
        assert_eq!(self.stdout, "", "{self:#?}");
        let message = self.stderr.to_lowercase();
        for part in parts {
            let said = message.contains(&part.to_lowercase());
            assert!(said, "no {part:?} in {self:#?}");
        }
    }

    /// Whether the exit code says that the work failed.
    pub fn is_failure(&self) -> bool {
        self.code == Some(1)
    }

    /// Its stdout as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}
