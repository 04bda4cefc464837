//! The demo's files: random inputs, and the comparison of an output with the definition.
//! Rows are read and written one at a time, so that the shape may be larger than memory.

use anyhow::{Context, Result, ensure};
use npyz::{NpyFile, WriterBuilder};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, StandardNormal, Uniform};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

/// Writes gates `a` (uniform in [0.8, 1)) and inputs `b` (standard normal), `[B, L, D]` f32.
pub fn write_inputs(shape: [usize; 3], seed: u64, a: &Path, b: &Path) -> Result<()> {
    let mut random = SmallRng::seed_from_u64(seed);
    let gates = Uniform::new(0.8f32, 1.0).context("the range of the gates")?;
    write(shape, a, || gates.sample(&mut random))?;
    write(shape, b, || random.sample(StandardNormal))
}

fn write(shape: [usize; 3], path: &Path, mut next: impl FnMut() -> f32) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).with_context(context)?);
    let mut writer = npyz::WriteOptions::new()
        .default_dtype()
        .shape(&shape.map(|size| size as u64))
        .writer(&mut file)
        .begin_nd()
        .with_context(context)?;
    for _ in 0..shape.iter().product() {
        writer.push(&next()).with_context(context)?;
    }
    // Dropping the buffer would hide a full disk.
    writer
        .finish()
        .and_then(|()| file.flush())
        .with_context(context)
}

/// The largest |h - oracle| / max(1, |oracle|) over all elements, where the oracle is
/// `h[t] = a[t] * h[t-1] + b[t]` in f64. Infinite where `h` is not a number.
pub fn largest_error(shape: [usize; 3], a: &Path, b: &Path, h: &Path) -> Result<f64> {
    let [batch, length, channels] = shape;
    let mut a = Values::open(a, shape)?;
    let mut b = Values::open(b, shape)?;
    let mut h = Values::open(h, shape)?;
    let mut largest = 0.0f64;
    let mut state = vec![0.0f64; channels];
    for _ in 0..batch {
        state.fill(0.0);
        for _ in 0..length {
            for state in &mut state {
                *state = a.next()? * *state + b.next()?;
                let error = (h.next()? - *state).abs() / state.abs().max(1.0);
                largest = largest.max(if error.is_nan() { f64::INFINITY } else { error });
            }
        }
    }
    Ok(largest)
}

/// The values of an npy file, in order.
struct Values {
    name: String,
    values: Box<dyn Iterator<Item = std::io::Result<f32>>>,
}

impl Values {
    fn open(path: &Path, shape: [usize; 3]) -> Result<Self> {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        let npy = NpyFile::new(BufReader::with_capacity(1 << 20, file))
            .with_context(|| format!("{name} is no npy file"))?;
        let expected = shape.map(|size| size as u64);
        ensure!(
            npy.shape() == expected && npy.order() == npyz::Order::C,
            "{name} has shape {:?} ({:?} order), expected {expected:?} (C order)",
            npy.shape(),
            npy.order()
        );
        let values = npy
            .data::<f32>()
            .map_err(|error| anyhow::anyhow!("{name} does not hold f32: {error}"))?;
        Ok(Self {
            values: Box::new(values),
            name,
        })
    }

    fn next(&mut self) -> Result<f64> {
        match self.values.next() {
            Some(Ok(value)) => Ok(value.into()),
            Some(Err(error)) => Err(error).with_context(|| format!("cannot read {}", self.name)),
            None => anyhow::bail!("{} ends early", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Files(tempfile::TempDir);

    impl Files {
        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn error(&self, shape: [usize; 3]) -> Result<f64> {
            largest_error(shape, &self.path("a"), &self.path("b"), &self.path("h"))
        }

        fn put(&self, name: &str, shape: [usize; 3], values: &[f32]) {
            let mut values = values.iter();
            write(shape, &self.path(name), || *values.next().unwrap()).unwrap();
        }
    }

    fn files() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    #[test]
    fn the_definition() {
        let (files, shape) = (files(), [2, 2, 2]);
        files.put("a", shape, &[9.0, 9.0, 0.5, 2.0, 9.0, 9.0, 0.5, 0.5]);
        files.put("b", shape, &[1.0, 2.0, 3.0, 4.0, 1.0, 1.0, 0.0, 0.0]);
        let right = [1.0, 2.0, 3.5, 8.0, 1.0, 1.0, 0.5, 0.5];
        files.put("h", shape, &right);
        assert_eq!(files.error(shape).unwrap(), 0.0);
        let mut wrong = right;
        wrong[3] = 9.0;
        wrong[7] = 0.625;
        files.put("h", shape, &wrong);
        assert_eq!(files.error(shape).unwrap(), 0.125);
        wrong[0] = f32::NAN;
        files.put("h", shape, &wrong);
        assert_eq!(files.error(shape).unwrap(), f64::INFINITY);
    }

    #[test]
    fn inputs_are_what_they_should_be_and_depend_on_the_seed() {
        let (files, shape) = (files(), [3, 50, 40]);
        let read = |seed| {
            write_inputs(shape, seed, &files.path("a"), &files.path("b")).unwrap();
            ["a", "b"].map(|name| {
                let mut values = Values::open(&files.path(name), shape).unwrap();
                let count = shape.iter().product::<usize>();
                let values: Vec<_> = (0..count).map(|_| values.next().unwrap()).collect();
                values
            })
        };
        let [a, b] = read(1);
        // As f32: the f64 0.8 is a little below the f32 one.
        assert!(a.iter().all(|&a| (0.8f32.into()..1.0).contains(&a)));
        let count = b.len() as f64;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
        assert!((mean(&a) - 0.9).abs() < 0.01 && mean(&b).abs() < 0.05);
        let square = b.iter().map(|b| b * b).sum::<f64>() / count;
        assert!((square - 1.0).abs() < 0.1, "{square}");
        assert_eq!(read(1), [a.clone(), b]);
        assert_ne!(read(2)[0], a);
    }

    #[test]
    fn nothing_to_compare_is_no_error() {
        let (files, shape) = (files(), [2, 0, 3]);
        for name in ["a", "b", "h"] {
            files.put(name, shape, &[]);
        }
        assert_eq!(files.error(shape).unwrap(), 0.0);
    }

    #[test]
    fn wrong_outputs_are_named() {
        let (files, shape) = (files(), [1, 2, 2]);
        files.put("a", shape, &[0.0; 4]);
        files.put("b", shape, &[0.0; 4]);
        let fails = |words: &str| {
            let error = format!("{:#}", files.error(shape).unwrap_err());
            assert!(error.contains(words), "{error}");
        };
        fails("cannot open");
        files.put("h", [2, 2, 1], &[0.0; 4]);
        fails("[2, 2, 1]");
        std::fs::write(files.path("h"), b"not npy").unwrap();
        fails("no npy file");
        files.put("h", shape, &[0.0; 4]);
        let bytes = std::fs::read(files.path("h")).unwrap();
        std::fs::write(files.path("h"), &bytes[..bytes.len() - 2]).unwrap();
        fails("cannot read");
    }
}
