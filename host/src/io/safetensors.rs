//! `.safetensors` files: named tensors.

use super::staged::io_error;
use super::{Error, Result, Staged, Tensor, TensorData};
use crate::dtype::DType;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use std::path::{Path, PathBuf};

const FORMAT: &str = "a .safetensors file";
const TYPES: &str = "F32, F16, BF16, I64, I32, U8";

/// A `.safetensors` file in memory, its header checked.
#[derive(Debug)]
pub struct SafetensorsFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl SafetensorsFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Format`] with what is wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let bytes = std::fs::read(&path).map_err(|source| io_error("read", &path, source))?;
        let file = Self { path, bytes };
        file.parse()?;
        Ok(file)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of its tensors, sorted.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self
            .parse()?
            .names()
            .into_iter()
            .map(String::from)
            .collect();
        names.sort();
        Ok(names)
    }

    /// Whether it has a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.parse().is_ok_and(|file| file.tensor(name).is_ok())
    }

    /// A copy of one tensor.
    ///
    /// # Errors
    /// [`Error::MissingTensor`] with the names there are; [`Error::UnknownType`];
    /// [`Error::OutOfMemory`].
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let file = self.parse()?;
        let Ok(view) = file.tensor(name) else {
            let names = self.names()?.join(", ");
            return Err(Error::MissingTensor {
                path: self.path.clone(),
                name: name.to_owned(),
                names: if names.is_empty() {
                    "none".to_owned()
                } else {
                    names
                },
            });
        };
        let dtype = from_dtype(view.dtype()).ok_or_else(|| Error::UnknownType {
            path: self.path.clone(),
            tensor: format!("`{name}`"),
            found: format!("{:?}", view.dtype()),
            expected: TYPES,
        })?;
        let elements = view.data().len() / dtype.size();
        let mut data = TensorData::zeros(dtype, elements).ok_or_else(|| Error::OutOfMemory {
            path: self.path.clone(),
            dtype,
            shape: view.shape().to_owned(),
        })?;
        data.bytes_mut().copy_from_slice(view.data());
        Ok(Tensor {
            shape: view.shape().to_owned(),
            data,
        })
    }

    fn parse(&self) -> Result<SafeTensors<'_>> {
        SafeTensors::deserialize(&self.bytes).map_err(|error| format_error(&self.path, &error))
    }
}

/// Writes named tensors to a `.safetensors` file; until all of it is there, the target stays
/// what it was.
///
/// # Errors
/// [`Error::Io`]; [`Error::Format`] if a shape does not multiply to the elements.
pub fn write_safetensors(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)]) -> Result<()> {
    stage_safetensors(path, tensors)?.commit()
}

/// [`write_safetensors`] without the last step.
///
/// # Errors
/// As [`write_safetensors`].
pub fn stage_safetensors(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)]) -> Result<Staged> {
    let path = path.as_ref();
    let views: Result<Vec<_>, SafeTensorError> = tensors
        .iter()
        .map(|(name, tensor)| {
            let dtype = to_dtype(tensor.data.dtype());
            let view = TensorView::new(dtype, tensor.shape.clone(), tensor.data.bytes())?;
            Ok((*name, view))
        })
        .collect();
    let views = views.map_err(|error| format_error(path, &error))?;
    let staged = Staged::create(path)?;
    match safetensors::serialize_to_file(views, None, staged.temporary()) {
        Ok(()) => Ok(staged),
        Err(SafeTensorError::IoError(source)) => Err(io_error("write", path, source)),
        Err(error) => Err(format_error(path, &error)),
    }
}

fn format_error(path: &Path, error: &SafeTensorError) -> Error {
    let reason = match error {
        SafeTensorError::MetadataIncompleteBuffer | SafeTensorError::InvalidHeaderLength => {
            format!("{error} (truncated, or with bytes after the last tensor)")
        }
        _ => error.to_string(),
    };
    Error::Format {
        path: path.to_owned(),
        expected: FORMAT,
        reason,
    }
}

fn to_dtype(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::Bf16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        DType::I32 => Dtype::I32,
        DType::U8 => Dtype::U8,
    }
}

fn from_dtype(dtype: Dtype) -> Option<DType> {
    use DType::{Bf16, F16, F32, I32, I64, U8};
    [F32, F16, Bf16, I64, I32, U8]
        .into_iter()
        .find(|&ours| to_dtype(ours) == dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let a = Tensor {
            shape: vec![1, 2],
            data: vec![bf16::ONE, bf16::INFINITY].into(),
        };
        let empty = Tensor {
            shape: vec![0, 4],
            data: TensorData::F32(vec![]),
        };
        write_safetensors(&path, &[("a", &a), ("empty", &empty)]).unwrap();
        let file = SafetensorsFile::open(&path).unwrap();
        assert_eq!(file.names().unwrap(), ["a", "empty"]);
        assert_eq!(file.tensor("a").unwrap(), a);
        assert_eq!(file.tensor("empty").unwrap(), empty);
        let missing = file.tensor("b").unwrap_err().to_string();
        assert!(
            missing.contains("no tensor `b`, only a, empty"),
            "{missing}"
        );
        let bytes = std::fs::read(&path).unwrap();
        for wrong in [
            &bytes[..bytes.len() - 1],
            &bytes[..4],
            &[bytes.as_slice(), b"x"].concat(),
        ] {
            std::fs::write(&path, wrong).unwrap();
            assert!(matches!(
                SafetensorsFile::open(&path),
                Err(Error::Format { .. })
            ));
        }
    }
}
