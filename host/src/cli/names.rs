//! Names of tensors in `.safetensors` files: `--name a=gate`.

use std::collections::BTreeMap;

/// The names that the linear scan uses by itself.
const KEYS: [&str; 6] = ["a", "b", "h0", "cu_seqlens", "h", "final_state"];

/// One `KEY=NAME`.
#[derive(Clone, Debug)]
pub struct Rename {
    key: &'static str,
    name: String,
}

impl std::str::FromStr for Rename {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, &KEYS)
    }
}

impl Rename {
    /// A new name for one of `keys`.
    pub fn parse(text: &str, keys: &[&'static str]) -> Result<Self, String> {
        let (key, name) = text
            .split_once('=')
            .ok_or("expected KEY=NAME, for example a=gate")?;
        let key = *(keys.iter().find(|known| **known == key))
            .ok_or_else(|| format!("`{key}` is none of {}", keys.join(", ")))?;
        if name == "__metadata__" {
            return Err("`__metadata__` is what the format itself uses".to_owned());
        }
        if name.is_empty() {
            return Err(format!("no name after `{key}=`"));
        }
        Ok(Self {
            key,
            name: name.to_owned(),
        })
    }
}

/// From an operation's own names to those in the files.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<&'static str, String>);

impl Names {
    /// Two tensors of one output that would have the same name, and that name.
    pub fn clash(&self) -> Option<&str> {
        let name = self.get("h");
        (name == self.get("final_state")).then_some(name)
    }

    pub fn new(renames: Vec<Rename>) -> Self {
        Self(renames.into_iter().map(|r| (r.key, r.name)).collect())
    }

    pub fn get<'a>(&'a self, key: &'a str) -> &'a str {
        self.0.get(key).map_or(key, String::as_str)
    }

    /// Whether the user chose this name, so that the tensor must be there.
    pub fn is_explicit(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
}
