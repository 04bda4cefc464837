//! `.npy` files: whole, or element ranges of files larger than memory.

use super::npy_header::{self, Header};
use super::staged::io_error;
use super::{Error, Result, Staged, Tensor, TensorData};
use crate::dtype::{DType, Data};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes between two reports of progress.
const PIECE: usize = 16 << 20;

/// Reads a whole `.npy` file.
///
/// # Errors
/// [`Error`], naming the file and what is wrong with it.
pub fn read_npy(path: impl AsRef<Path>) -> Result<Tensor> {
    NpyReader::open(path)?.read_all(|_| {})
}

/// Writes a whole `.npy` file; until all of it is there, the target stays what it was.
///
/// # Errors
/// [`Error::Io`]; [`Error::WrongShape`] if the shape does not multiply to the elements.
pub fn write_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    let mut writer = NpyWriter::create(path, tensor.data.dtype(), &tensor.shape)?;
    writer.write_all(&tensor.data, |_| {})?;
    writer.finish().commit()
}

/// An open `.npy` file whose header and length have been checked.
#[derive(Debug)]
pub struct NpyReader {
    path: PathBuf,
    file: File,
    header: Header,
    data: u64,
}

impl NpyReader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`Error`], naming the file and what is wrong with it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| io_error("open", path, source))?;
        let mut file = BufReader::new(file);
        let header = Header::read(path, &mut file)?;
        let read = |source| io_error("read", path, source);
        let data = file.stream_position().map_err(read)?;
        let file = file.into_inner();
        let found = file.metadata().map_err(read)?.len().saturating_sub(data);
        let expected = header.bytes().unwrap_or(u64::MAX);
        let (path, dtype, shape) = (path.to_owned(), header.dtype, header.shape.clone());
        if found < expected {
            return Err(Error::Truncated {
                path,
                found,
                expected,
                dtype,
                shape,
            });
        }
        if found > expected {
            return Err(Error::TrailingBytes {
                path,
                found,
                expected,
                dtype,
                shape,
            });
        }
        Ok(Self {
            path,
            file,
            header,
            data,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.header.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &[usize] {
        &self.header.shape
    }

    /// Bytes of the data.
    pub fn bytes(&self) -> u64 {
        self.header.bytes().unwrap_or_default()
    }

    /// Reads everything; `progress` hears of every few bytes that have come.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::OutOfMemory`].
    pub fn read_all(mut self, mut progress: impl FnMut(u64)) -> Result<Tensor> {
        let elements = self.header.shape.iter().product();
        let mut data =
            TensorData::zeros(self.header.dtype, elements).ok_or_else(|| Error::OutOfMemory {
                path: self.path.clone(),
                dtype: self.header.dtype,
                shape: self.header.shape.clone(),
            })?;
        self.seek(0)?;
        for piece in data.bytes_mut().chunks_mut(PIECE) {
            self.fill(piece)?;
            progress(piece.len() as u64);
        }
        Ok(Tensor {
            shape: self.header.shape,
            data,
        })
    }

    /// Reads the elements from number `first` on into `out`.
    ///
    /// # Errors
    /// [`Error::WrongType`] unless `T` is the file's element type; [`Error::Io`].
    pub fn read_at<T: Data>(&mut self, first: usize, out: &mut [T]) -> Result<()> {
        check_type::<T>(&self.path, self.header.dtype)?;
        self.seek(first as u64 * size_of::<T>() as u64)?;
        self.fill(bytemuck::cast_slice_mut(out))
    }

    fn seek(&mut self, offset: u64) -> Result<()> {
        match self.file.seek(SeekFrom::Start(self.data + offset)) {
            Ok(_) => Ok(()),
            Err(source) => Err(io_error("read", &self.path, source)),
        }
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        (self.file.read_exact(out)).map_err(|source| io_error("read", &self.path, source))
    }
}

/// A `.npy` file that is being written, in any order of its elements.
#[derive(Debug)]
pub struct NpyWriter {
    staged: Staged,
    header: Header,
    data: u64,
}

impl NpyWriter {
    /// Begins a file of this shape, all zeros.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(path: impl AsRef<Path>, dtype: DType, shape: &[usize]) -> Result<Self> {
        let path = path.as_ref();
        let header = Header {
            dtype,
            shape: shape.to_owned(),
        };
        let bytes = npy_header::bytes(dtype, shape).ok_or_else(|| Error::OutOfMemory {
            path: path.to_owned(),
            dtype,
            shape: shape.to_owned(),
        })?;
        let mut staged = Staged::create(path)?;
        let data = begin(staged.file(), &header, bytes)
            .map_err(|source| io_error("write", path, source))?;
        Ok(Self {
            staged,
            header,
            data,
        })
    }

    /// Writes all elements; `progress` hears of every few bytes that have gone.
    ///
    /// # Errors
    /// [`Error::WrongType`], [`Error::WrongShape`] unless the elements are those of the
    /// header; [`Error::Io`].
    pub fn write_all(&mut self, data: &TensorData, mut progress: impl FnMut(u64)) -> Result<()> {
        if data.dtype() != self.header.dtype {
            return Err(wrong_type(
                self.staged.path(),
                data.dtype(),
                self.header.dtype,
            ));
        }
        if Some(data.bytes().len() as u64) != self.header.bytes() {
            return Err(Error::WrongShape {
                path: self.staged.path().to_owned(),
                tensor: "the array".to_owned(),
                found: self.header.shape.clone(),
                expected: format!("a shape of {} elements", data.len()),
            });
        }
        self.seek(0)?;
        for piece in data.bytes().chunks(PIECE) {
            self.put(piece)?;
            progress(piece.len() as u64);
        }
        Ok(())
    }

    /// Writes elements from number `first` on.
    ///
    /// # Errors
    /// [`Error::WrongType`] unless `T` is the file's element type; [`Error::Io`].
    pub fn write_at<T: Data>(&mut self, first: usize, elements: &[T]) -> Result<()> {
        check_type::<T>(self.staged.path(), self.header.dtype)?;
        self.seek(first as u64 * size_of::<T>() as u64)?;
        self.put(bytemuck::cast_slice(elements))
    }

    /// The written file, not yet under its name.
    pub fn finish(self) -> Staged {
        self.staged
    }

    fn seek(&mut self, offset: u64) -> Result<()> {
        match self.staged.file().seek(SeekFrom::Start(self.data + offset)) {
            Ok(_) => Ok(()),
            Err(source) => Err(io_error("write", self.staged.path(), source)),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        match self.staged.file().write_all(bytes) {
            Ok(()) => Ok(()),
            Err(source) => Err(io_error("write", self.staged.path(), source)),
        }
    }
}

/// Writes the header and makes room for the data; gives where the data begins.
fn begin(file: &mut File, header: &Header, bytes: u64) -> std::io::Result<u64> {
    header.write(file)?;
    let data = file.stream_position()?;
    file.set_len(data + bytes)?;
    Ok(data)
}

fn check_type<T: Data>(path: &Path, found: DType) -> Result<()> {
    if T::DTYPE == found {
        return Ok(());
    }
    Err(wrong_type(path, found, T::DTYPE))
}

fn wrong_type(path: &Path, found: DType, expected: DType) -> Error {
    Error::WrongType {
        path: path.to_owned(),
        tensor: "the array".to_owned(),
        found,
        expected: expected.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parts_of_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let mut writer = NpyWriter::create(&path, DType::I32, &[2, 3]).unwrap();
        writer.write_at(3, &[4i32, 5, 6]).unwrap();
        writer.write_at(0, &[1i32, 2, 3]).unwrap();
        assert!(matches!(
            writer.write_at(0, &[1f32]),
            Err(Error::WrongType { .. })
        ));
        assert!(!path.exists());
        writer.finish().commit().unwrap();
        let whole = read_npy(&path).unwrap();
        assert_eq!(whole.shape, [2, 3]);
        assert_eq!(whole.data, TensorData::I32(vec![1, 2, 3, 4, 5, 6]));
        let mut part = [0i32; 2];
        NpyReader::open(&path)
            .unwrap()
            .read_at(2, &mut part)
            .unwrap();
        assert_eq!(part, [3, 4]);
        // Only the file itself is left.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_wrong_length_is_an_error_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let tensor = Tensor {
            shape: vec![2, 2],
            data: TensorData::F32(vec![0.0; 3]),
        };
        assert!(matches!(
            write_npy(&path, &tensor),
            Err(Error::WrongShape { .. })
        ));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        write_npy(
            &path,
            &Tensor {
                shape: vec![3],
                ..tensor
            },
        )
        .unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(matches!(
            read_npy(&path),
            Err(Error::Truncated {
                found: 11,
                expected: 12,
                ..
            })
        ));
        std::fs::write(&path, [&bytes[..], &[0]].concat()).unwrap();
        assert!(matches!(read_npy(&path), Err(Error::TrailingBytes { .. })));
    }
}
