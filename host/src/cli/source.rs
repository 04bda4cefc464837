//! A tensor that the user named: its file, its header, its data when they are needed.

use ferroseq::DType;
use ferroseq::io::{Error, NpyReader, Result, SafetensorsFile, Tensor};
use std::path::{Path, PathBuf};

/// One input tensor, checked as far as its header goes.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    /// For messages: `a`, or `` `gate` ``.
    label: String,
    data: SourceData,
}

#[derive(Debug)]
pub enum SourceData {
    /// Data still in the file.
    Npy(NpyReader),
    /// Data in memory.
    Tensor(Tensor),
}

impl Source {
    pub fn npy(label: &str, path: &Path) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            label: label.to_owned(),
            data: SourceData::Npy(NpyReader::open(path)?),
        })
    }

    pub fn safetensors(file: &SafetensorsFile, name: &str) -> Result<Self> {
        Ok(Self {
            path: file.path().to_owned(),
            label: format!("`{name}`"),
            data: SourceData::Tensor(file.tensor(name)?),
        })
    }

    pub fn dtype(&self) -> DType {
        match &self.data {
            SourceData::Npy(reader) => reader.dtype(),
            SourceData::Tensor(tensor) => tensor.data.dtype(),
        }
    }

    pub fn shape(&self) -> &[usize] {
        match &self.data {
            SourceData::Npy(reader) => reader.shape(),
            SourceData::Tensor(tensor) => &tensor.shape,
        }
    }

    /// Bytes still to be read.
    pub fn bytes(&self) -> u64 {
        match &self.data {
            SourceData::Npy(reader) => reader.bytes(),
            SourceData::Tensor(_) => 0,
        }
    }

    pub fn expect_type(&self, expected: &[DType]) -> Result<()> {
        if expected.contains(&self.dtype()) {
            return Ok(());
        }
        let names: Vec<&str> = expected.iter().map(|dtype| dtype.name()).collect();
        Err(Error::WrongType {
            path: self.path.clone(),
            tensor: self.label.clone(),
            found: self.dtype(),
            expected: names.join(" or "),
        })
    }

    pub fn expect_shape(&self, expected: &[usize], why: &str) -> Result<()> {
        if self.shape() == expected {
            return Ok(());
        }
        Err(self.wrong_shape(format!("{expected:?}, {why}")))
    }

    /// The shape, if it has this many dimensions.
    pub fn expect_rank<const RANK: usize>(&self, dimensions: &str) -> Result<[usize; RANK]> {
        <[usize; RANK]>::try_from(self.shape())
            .map_err(|_| self.wrong_shape(format!("{RANK} dimensions {dimensions}")))
    }

    fn wrong_shape(&self, expected: String) -> Error {
        Error::WrongShape {
            path: self.path.clone(),
            tensor: self.label.clone(),
            found: self.shape().to_owned(),
            expected,
        }
    }

    /// All of it, in memory.
    pub fn load(self, progress: impl FnMut(u64)) -> Result<Tensor> {
        match self.data {
            SourceData::Npy(reader) => reader.read_all(progress),
            SourceData::Tensor(tensor) => Ok(tensor),
        }
    }

    /// The open file, to read it in pieces; `None` if it is in memory already.
    pub fn into_reader(self) -> Option<NpyReader> {
        match self.data {
            SourceData::Npy(reader) => Some(reader),
            SourceData::Tensor(_) => None,
        }
    }
}
