//! Many input tensors, each in a file of its own or all in one: `--input`, `--config`,
//! `--tensor`.

use super::paths::Named;
use super::source::Source;
use anyhow::{Context, bail};
use ferroseq::io::SafetensorsFile;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const FORMS: &str = "FILE.npy, FILE.safetensors or FILE.safetensors#NAME";

/// Where the input tensors are; a later way of saying it wins over an earlier.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub struct TensorArgs {
    /// A .safetensors file with the tensors under their own names
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// A JSON file that says which tensor is where
    ///
    /// One object, from the tensor's KEY to "FILE.npy", "FILE.safetensors" (where it has the
    /// name KEY) or "FILE.safetensors#NAME". Files are relative to the folder of the config.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// One tensor: KEY=FILE.npy, KEY=FILE.safetensors or KEY=FILE.safetensors#NAME
    ///
    /// May be repeated. Wins over --config, which wins over --input.
    #[arg(long = "tensor", value_name = "KEY=FILE")]
    tensors: Vec<Assignment>,
}

/// One `KEY=FILE`.
#[derive(Clone, Debug)]
pub struct Assignment {
    key: String,
    place: Place,
}

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, file) = text
            .split_once('=')
            .ok_or("expected KEY=FILE, for example x=x.npy")?;
        Ok(Self {
            key: key.to_owned(),
            place: file.parse()?,
        })
    }
}

/// Where one tensor is.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Place {
    file: PathBuf,
    /// In a `.safetensors` file; absent, the key.
    name: Option<String>,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const ENDING: &str = ".safetensors";
        let wrong = || Err(format!("`{text}` is none of {FORMS}"));
        let (file, name) = match text.find(".safetensors#") {
            Some(at) => text.split_at(at + ENDING.len()),
            None if text.ends_with(".npy") || text.ends_with(ENDING) => (text, ""),
            None => return wrong(),
        };
        let name = match name.strip_prefix('#') {
            Some("") => return wrong(),
            name => name.map(str::to_owned),
        };
        Ok(Self {
            file: file.into(),
            name,
        })
    }
}

impl TryFrom<String> for Place {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Where an operation's tensors are, each under its key.
#[derive(Debug)]
pub struct Tensors {
    input: Option<PathBuf>,
    config: Option<PathBuf>,
    places: BTreeMap<String, (&'static str, Place)>,
    open: BTreeMap<PathBuf, SafetensorsFile>,
}

impl Tensors {
    /// Reads the config and checks the keys against those of the operation.
    pub fn new(args: TensorArgs, keys: &[&str]) -> anyhow::Result<Self> {
        let mut places = BTreeMap::new();
        if let Some(path) = &args.config {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let config: BTreeMap<String, Place> = serde_json::from_str(&text)
                .with_context(|| format!("{} is not a config", path.display()))?;
            let folder = path.parent().unwrap_or(Path::new(""));
            for (key, mut place) in config {
                place.file = folder.join(place.file);
                places.insert(key, ("--config", place));
            }
        }
        for Assignment { key, place } in args.tensors {
            places.insert(key, ("--tensor", place));
        }
        for (key, (option, _)) in &places {
            if !keys.contains(&key.as_str()) {
                bail!("{option}: `{key}` is none of {}", keys.join(", "));
            }
        }
        Ok(Self {
            input: args.input,
            config: args.config,
            places,
            open: BTreeMap::new(),
        })
    }

    /// All files that are read, and the options that name them.
    pub fn files(&self) -> Vec<Named<'_>> {
        let whole = [("--input", &self.input), ("--config", &self.config)];
        let mut files = super::paths::named(&whole);
        let places = self.places.values();
        files.extend(places.map(|(option, place)| (*option, place.file.as_path())));
        files
    }

    /// A tensor, if the user has said where it is or the input holds it.
    pub fn find(&mut self, key: &str) -> anyhow::Result<Option<Source>> {
        if let Some((_, Place { file, name })) = self.places.get(key).cloned() {
            if file.extension().is_some_and(|ending| ending == "npy") {
                return Ok(Some(Source::npy(key, &file)?));
            }
            let name = name.as_deref().unwrap_or(key);
            return Ok(Some(Source::safetensors(self.file(&file)?, name)?));
        }
        let Some(input) = self.input.clone() else {
            return Ok(None);
        };
        let file = self.file(&input)?;
        match file.contains(key) {
            true => Ok(Some(Source::safetensors(file, key)?)),
            false => Ok(None),
        }
    }

    /// A tensor that the operation cannot do without.
    pub fn need(&mut self, key: &str) -> anyhow::Result<Source> {
        if let Some(source) = self.find(key)? {
            return Ok(source);
        }
        let input = match &self.input {
            Some(path) => format!("{} has none, and ", path.display()),
            None => String::new(),
        };
        bail!("no tensor `{key}`: {input}neither --tensor nor --config says where it is")
    }

    fn file(&mut self, path: &Path) -> anyhow::Result<&SafetensorsFile> {
        if !self.open.contains_key(path) {
            let file = SafetensorsFile::open(path)?;
            self.open.insert(path.to_owned(), file);
        }
        Ok(&self.open[path])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let place = |text: &str| text.parse::<Place>();
        let of = |text: &str| {
            let place = place(text).unwrap();
            (place.file.display().to_string(), place.name)
        };
        assert_eq!(of("a/x.npy"), ("a/x.npy".into(), None));
        assert_eq!(of("x#1.npy"), ("x#1.npy".into(), None));
        assert_eq!(of("m.safetensors"), ("m.safetensors".into(), None));
        let named = ("m.safetensors".into(), Some("layers.0.A_log".into()));
        assert_eq!(of("m.safetensors#layers.0.A_log"), named);
        for wrong in ["", "x", "x.npz", "x.npy#name", "m.safetensors#"] {
            let message = place(wrong).unwrap_err();
            assert!(message.contains(FORMS), "{message}");
        }
        assert!("x".parse::<Assignment>().unwrap_err().contains("KEY=FILE"));
    }
}
