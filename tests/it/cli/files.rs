//! Input files, right and wrong, written by the formats' specifications, and output files
//! read back.

use ferroseq::ops::{Layout, SelectiveScan};
use ferroseq_tests::{Outcome, Problem, Sample, SelectiveProblem};
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

/// A type that `.npy` and `.safetensors` files hold.
pub trait Stored: bytemuck::Pod {
    /// numpy's name of it; `None` where numpy has none.
    const NPY: Option<&'static str>;
    /// safetensors' name of it.
    const DTYPE: Dtype;
}

impl Stored for f32 {
    const NPY: Option<&'static str> = Some("<f4");
    const DTYPE: Dtype = Dtype::F32;
}

impl Stored for f16 {
    const NPY: Option<&'static str> = Some("<f2");
    const DTYPE: Dtype = Dtype::F16;
}

impl Stored for bf16 {
    const NPY: Option<&'static str> = None;
    const DTYPE: Dtype = Dtype::BF16;
}

impl Stored for i64 {
    const NPY: Option<&'static str> = Some("<i8");
    const DTYPE: Dtype = Dtype::I64;
}

impl Stored for i32 {
    const NPY: Option<&'static str> = Some("<i4");
    const DTYPE: Dtype = Dtype::I32;
}

impl Stored for u8 {
    const NPY: Option<&'static str> = Some("|u1");
    const DTYPE: Dtype = Dtype::U8;
}

/// A `.npy` file, version 1.0, with any header.
pub fn npy_bytes(descr: &str, fortran: bool, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({sizes}), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(data);
    file
}

/// A right `.npy` file.
pub fn npy<T: Stored>(shape: &[usize], data: &[T]) -> Vec<u8> {
    let descr = T::NPY.expect("a type that numpy has");
    npy_bytes(descr, false, shape, bytemuck::cast_slice(data))
}

/// A tensor of a `.safetensors` file.
pub struct Tensor {
    name: &'static str,
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<u8>,
}

pub fn tensor<T: Stored>(name: &'static str, shape: &[usize], data: &[T]) -> Tensor {
    Tensor {
        name,
        dtype: T::DTYPE,
        shape: shape.to_vec(),
        data: bytemuck::cast_slice(data).to_vec(),
    }
}

pub fn safetensors(tensors: &[Tensor]) -> Vec<u8> {
    let views = tensors.iter().map(|tensor| {
        let view = TensorView::new(tensor.dtype, tensor.shape.clone(), &tensor.data);
        (tensor.name, view.unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

/// Reads a `.npy` output and checks its type, order and shape.
pub fn read_npy<T: Stored + npyz::Deserialize>(file: &[u8], shape: &[usize]) -> Vec<T> {
    let npy = npyz::NpyFile::new(file).unwrap();
    let shape: Vec<u64> = shape.iter().map(|&size| size as u64).collect();
    assert_eq!(npy.shape(), shape);
    assert_eq!(npy.order(), npyz::Order::C);
    assert_eq!(
        npy.dtype().descr(),
        format!("'{}'", T::NPY.unwrap_or_default())
    );
    npy.into_vec().unwrap()
}

/// Reads a tensor of a `.safetensors` output and checks its type and shape.
pub fn read_tensor<T: Stored>(file: &[u8], name: &str, shape: &[usize]) -> Vec<T> {
    let file = SafeTensors::deserialize(file).unwrap();
    let tensor = file
        .tensor(name)
        .unwrap_or_else(|error| panic!("{error}; there are {:?}", file.names()));
    assert_eq!((tensor.dtype(), tensor.shape()), (T::DTYPE, shape));
    bytemuck::pod_collect_to_vec(tensor.data())
}

/// `[B, L, D]` or `[B, D, L]`, as the problem's files have it.
pub fn shape_of<T>(problem: &Problem<T>) -> [usize; 3] {
    let scan = problem.scan;
    match scan.layout {
        Layout::Bld => [scan.batch, scan.length, scan.channels],
        Layout::Bdl => [scan.batch, scan.channels, scan.length],
    }
}

/// `[B, D]` or `[S, D]`.
pub fn state_shape_of<T: Sample>(problem: &Problem<T>) -> [usize; 2] {
    [problem.sequences(), problem.scan.channels]
}

/// The inputs of a problem as `a.npy`, `b.npy`, and where it has them `h0.npy`, `offsets.npy`.
pub fn npy_inputs<T: Sample + Stored>(problem: &Problem<T>) -> Vec<(&'static str, Vec<u8>)> {
    let shape = shape_of(problem);
    let mut files = vec![
        ("a.npy", npy(&shape, &problem.a)),
        ("b.npy", npy(&shape, &problem.b)),
    ];
    if let Some(h0) = &problem.h0 {
        files.push(("h0.npy", npy(&state_shape_of(problem), h0)));
    }
    if let Some(offsets) = &problem.offsets {
        files.push(("offsets.npy", npy(&[offsets.len()], offsets)));
    }
    files
}

/// The inputs of a problem as one `.safetensors` file.
pub fn safetensors_inputs<T: Sample + Stored>(problem: &Problem<T>) -> Vec<u8> {
    let shape = shape_of(problem);
    let mut tensors = vec![
        tensor("a", &shape, &problem.a),
        tensor("b", &shape, &problem.b),
    ];
    if let Some(h0) = &problem.h0 {
        tensors.push(tensor("h0", &state_shape_of(problem), h0));
    }
    if let Some(offsets) = &problem.offsets {
        tensors.push(tensor("cu_seqlens", &[offsets.len()], offsets));
    }
    safetensors(&tensors)
}

/// The inputs of a selective scan: each tensor's name and shape as its files have them, and
/// the tensor. B and C without groups have three dimensions.
pub fn selective_inputs<T: Sample + Stored>(problem: &SelectiveProblem<T>) -> Vec<Tensor> {
    let SelectiveScan {
        batch: b,
        length: l,
        channels: d,
        state: n,
        groups: g,
        layout,
        ..
    } = problem.scan;
    let (x, matrix) = match (layout, g) {
        (Layout::Bld, 1) => ([b, l, d], vec![b, l, n]),
        (Layout::Bld, _) => ([b, l, d], vec![b, l, g, n]),
        (Layout::Bdl, 1) => ([b, d, l], vec![b, n, l]),
        (Layout::Bdl, _) => ([b, d, l], vec![b, g, n, l]),
    };
    let a = if problem.log { "A_log" } else { "A" };
    let mut tensors = vec![
        tensor("x", &x, &problem.x),
        tensor("delta", &x, &problem.delta),
        tensor(a, &[d, n], &problem.a),
        tensor("B", &matrix, &problem.b),
        tensor("C", &matrix, &problem.c),
    ];
    let parameters = [
        ("D_skip", &problem.d_skip),
        ("delta_bias", &problem.delta_bias),
    ];
    for (name, values) in parameters {
        tensors.extend(values.iter().map(|values| tensor(name, &[d], values)));
    }
    tensors.extend(problem.z.iter().map(|z| tensor("z", &x, z)));
    let states = [problem.sequences(), d, n];
    tensors.extend(problem.h0.iter().map(|h0| tensor("h0", &states, h0)));
    let offsets = problem.offsets.iter();
    tensors.extend(offsets.map(|o| tensor("cu_seqlens", &[o.len()], o)));
    tensors
}

impl Tensor {
    /// Its name and its own `.npy` file.
    pub fn npy(&self) -> (String, Vec<u8>) {
        let descr = match self.dtype {
            Dtype::F32 => "<f4",
            Dtype::F16 => "<f2",
            Dtype::I64 => "<i8",
            other => panic!("{other:?} in .npy"),
        };
        let file = npy_bytes(descr, false, &self.shape, &self.data);
        (self.name.to_owned(), file)
    }

    /// The same under another name.
    pub fn renamed(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }
}

/// `h.npy` and `hT.npy` as what a run returned.
pub fn npy_outcome<T: Sample + Stored + npyz::Deserialize>(
    problem: &Problem<T>,
    h: &[u8],
    final_state: &[u8],
) -> Outcome<T> {
    Outcome {
        h: read_npy(h, &shape_of(problem)),
        final_state: read_npy(final_state, &state_shape_of(problem)),
    }
}
