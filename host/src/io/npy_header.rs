//! The header of a `.npy` file: magic, version, and a Python dict literal.
//!
//! Format: NumPy's `numpy.lib.format`, versions 1.0, 2.0 and 3.0.

use super::staged::io_error;
use super::{Error, Result};
use crate::dtype::DType;
use py_literal::Value;
use std::io::{Read, Write};
use std::path::Path;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// A header is one line of a few words; numpy itself refuses longer ones.
const LONGEST: usize = 64 * 1024;
/// The literal's parser recurses; a header of ours nests twice.
const MOST_BRACKETS: usize = 16;
const TYPES: &str = "f32 '<f4', f16 '<f2', bf16 '<V2', i64 '<i8', i32 '<i4', u8 '|u1'";

#[derive(Debug, PartialEq)]
pub(super) struct Header {
    pub dtype: DType,
    pub shape: Vec<usize>,
}

impl Header {
    /// Elements times size, if that fits in 63 bits.
    pub fn bytes(&self) -> Option<u64> {
        bytes(self.dtype, &self.shape)
    }

    /// Reads up to the first byte of the data.
    pub fn read(path: &Path, file: &mut impl Read) -> Result<Self> {
        let bad = |reason: String| Error::Format {
            path: path.to_owned(),
            expected: "a .npy file",
            reason,
        };
        let mut take = |len: usize| -> Result<Vec<u8>> {
            let mut bytes = vec![0; len];
            match file.read_exact(&mut bytes) {
                Ok(()) => Ok(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    Err(bad("it ends inside the header".to_owned()))
                }
                Err(error) => Err(io_error("read", path, error)),
            }
        };
        let start = take(8)?;
        if !start.starts_with(MAGIC) {
            return Err(bad("it does not begin with \\x93NUMPY".to_owned()));
        }
        let length = match start[6] {
            1 => take(2)?
                .iter()
                .rev()
                .fold(0, |n, &b| n << 8 | usize::from(b)),
            2 | 3 => take(4)?
                .iter()
                .rev()
                .fold(0, |n, &b| n << 8 | usize::from(b)),
            version => return Err(bad(format!("format version {version}, expected 1, 2 or 3"))),
        };
        if length > LONGEST {
            return Err(bad(format!("a header of {length} bytes")));
        }
        let text = String::from_utf8(take(length)?)
            .map_err(|_| bad("the header is not text".to_owned()))?;
        Self::parse(path, text.trim(), bad)
    }

    fn parse(path: &Path, text: &str, bad: impl Fn(String) -> Error) -> Result<Self> {
        let wrong = || bad(format!("the header is {text}"));
        if text.matches(['(', '[', '{']).count() > MOST_BRACKETS {
            return Err(bad("the header nests too deep".to_owned()));
        }
        let Ok(Value::Dict(entries)) = text.parse::<Value>() else {
            return Err(wrong());
        };
        let get = |name: &str| {
            let mut found = entries.iter();
            found.find(|(key, _)| key.as_string().is_some_and(|key| key == name))
        };
        let (Some((_, descr)), Some((_, Value::Boolean(fortran))), Some((_, Value::Tuple(sizes)))) =
            (get("descr"), get("fortran_order"), get("shape"))
        else {
            return Err(wrong());
        };
        let shape: Option<Vec<usize>> = sizes
            .iter()
            .map(|size| {
                size.as_integer()
                    .and_then(|n| usize::try_from(n.clone()).ok())
            })
            .collect();
        let shape = shape.ok_or_else(wrong)?;
        let descr = match descr {
            Value::String(descr) => descr.clone(),
            other => other.to_string(),
        };
        if descr.starts_with('>') {
            return Err(Error::BigEndian {
                path: path.to_owned(),
                found: descr,
            });
        }
        let dtype = from_descr(&descr).ok_or_else(|| Error::UnknownType {
            path: path.to_owned(),
            tensor: "the array".to_owned(),
            found: descr,
            expected: TYPES,
        })?;
        // With at most one dimension longer than 1 the two orders are the same.
        if *fortran && shape.iter().filter(|&&size| size != 1).count() > 1 {
            return Err(Error::FortranOrder {
                path: path.to_owned(),
            });
        }
        let header = Self { dtype, shape };
        if header.bytes().is_none() {
            return Err(bad(format!(
                "{:?} elements cannot be addressed",
                header.shape
            )));
        }
        Ok(header)
    }

    /// Writes it, padded so that the data begins at a multiple of 64 bytes.
    pub fn write(&self, file: &mut impl Write) -> std::io::Result<()> {
        let sizes: String = self.shape.iter().map(|size| format!("{size}, ")).collect();
        let mut text = format!(
            "{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
            descr(self.dtype),
            sizes.trim_end()
        );
        // Magic, version and the 2-byte length come before it, a newline ends it.
        let total = (MAGIC.len() + 4 + text.len() + 1).next_multiple_of(64);
        let length = total - MAGIC.len() - 4;
        while text.len() < length - 1 {
            text.push(' ');
        }
        text.push('\n');
        let length = u16::try_from(length).map_err(std::io::Error::other)?;
        file.write_all(MAGIC)?;
        file.write_all(&[1, 0])?;
        file.write_all(&length.to_le_bytes())?;
        file.write_all(text.as_bytes())
    }
}

pub(super) fn bytes(dtype: DType, shape: &[usize]) -> Option<u64> {
    let elements = shape
        .iter()
        .try_fold(1usize, |n, &size| n.checked_mul(size))?;
    let bytes = elements.checked_mul(dtype.size())?;
    isize::try_from(bytes).ok()?;
    u64::try_from(bytes).ok()
}

fn descr(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::Bf16 => "<V2",
        DType::I64 => "<i8",
        DType::I32 => "<i4",
        DType::U8 => "|u1",
    }
}

fn from_descr(text: &str) -> Option<DType> {
    use DType::{Bf16, F16, F32, I32, I64, U8};
    [F32, F16, Bf16, I64, I32, U8]
        .into_iter()
        .find(|&dtype| descr(dtype) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Header> {
        let mut file = MAGIC.to_vec();
        file.extend([1, 0]);
        file.extend((text.len() as u16).to_le_bytes());
        file.extend(text.as_bytes());
        Header::read(Path::new("x.npy"), &mut file.as_slice())
    }

    #[test]
    fn what_is_written_is_read() {
        for shape in [vec![], vec![3], vec![0, 2], vec![2, 3, 4]] {
            for dtype in [
                DType::F32,
                DType::F16,
                DType::Bf16,
                DType::I64,
                DType::I32,
                DType::U8,
            ] {
                let header = Header {
                    dtype,
                    shape: shape.clone(),
                };
                let mut file = Vec::new();
                header.write(&mut file).unwrap();
                assert_eq!(file.len() % 64, 0);
                assert_eq!(
                    Header::read(Path::new("x.npy"), &mut &file[..]).unwrap(),
                    header
                );
            }
        }
    }

    #[test]
    fn each_fault_has_its_error() {
        let header = |descr: &str, order: &str, shape: &str| {
            format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}")
        };
        type Is = fn(&Error) -> bool;
        let cases: [(String, Is); 8] = [
            (header("'>f4'", "False", "(2,)"), |e| {
                matches!(e, Error::BigEndian { .. })
            }),
            (header("'<f8'", "False", "(2,)"), |e| {
                matches!(e, Error::UnknownType { .. })
            }),
            (header("[('x', '<f4')]", "False", "(2,)"), |e| {
                matches!(e, Error::UnknownType { .. })
            }),
            (header("'<f4'", "True", "(2, 3)"), |e| {
                matches!(e, Error::FortranOrder { .. })
            }),
            (header("'<f4'", "False", "(-1,)"), |e| {
                matches!(e, Error::Format { .. })
            }),
            (header("'<f4'", "False", "(4294967296, 4294967296)"), |e| {
                matches!(e, Error::Format { .. })
            }),
            ("(".repeat(60_000), |e| matches!(e, Error::Format { .. })),
            ("[1, 2".to_owned(), |e| matches!(e, Error::Format { .. })),
        ];
        for (text, is) in cases {
            let error = read(&text).unwrap_err();
            assert!(is(&error), "{error:?}");
        }
        assert_eq!(
            read(&header("'<f4'", "True", "(1, 3)")).unwrap().shape,
            [1, 3]
        );
        let not_npy = Header::read(Path::new("x"), &mut &b"not an array"[..]);
        assert!(matches!(not_npy, Err(Error::Format { .. })));
        let short = Header::read(Path::new("x"), &mut &b"\x93NUMPY\x01\x00\x76\x00{'de"[..]);
        assert!(matches!(short, Err(Error::Format { .. })));
    }
}
