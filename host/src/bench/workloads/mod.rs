//! What can be measured: one file per operation.
//!
//! An operation plugs in with a [`Workload`] for each shape and one line in
//! [`OPERATIONS`]. Sizes to measure by default are in [`presets`](super::presets).

mod combine;
mod dispatch;
mod linear_scan;
mod linear_scan_backward;
mod projection;
mod route;
mod selective_scan;
mod selective_scan_layer;
mod selective_scan_step;

use super::row::{Accuracy, Operations, Stream};
use crate::device::{Device, DeviceKind};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ops::Layout;

/// One piece of work: an operation with its sizes.
pub(crate) trait Workload {
    /// The operation's name, as the command line has it.
    fn op(&self) -> &'static str;
    /// Its sizes, in the operation's own order.
    fn shape(&self) -> Vec<usize>;
    /// The element type of its sequences.
    fn dtype(&self) -> DType;
    /// The memory layout, where there is a choice.
    fn layout(&self) -> Option<Layout>;
    /// Bytes that must move: each argument once.
    fn bytes(&self) -> u64;
    /// Arithmetic that must be done.
    fn operations(&self) -> Operations;
    /// The ceiling its traffic is held against: the one with the nearest ratio of reads
    /// to writes.
    fn stream(&self) -> Stream;
    /// Makes the inputs on the device.
    fn prepare(&self, device: &Device, seed: u64) -> Result<Box<dyn Prepared>>;
}

/// A piece of work with its buffers on a device.
pub(crate) trait Prepared {
    /// Starts it once; on a GPU it is not awaited.
    fn launch(&mut self) -> Result<()>;
    /// Fills the outputs with NaN.
    fn poison(&mut self) -> Result<()>;
    /// Reads the outputs back and compares them with the float64 oracle.
    fn check(&mut self) -> Result<Accuracy>;
    /// Changes one input element that a checked output depends on, unknown to the
    /// oracle: what follows must be found wrong.
    fn plant_fault(&mut self) -> Result<()>;
}

/// A piece of work of any operation.
pub(crate) type Work = Box<dyn Workload>;

/// An operation that can be measured.
pub struct Operation {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it computes, in a few words.
    pub about: &'static str,
    /// The names of its sizes, e.g. `B,L,D`.
    pub sizes: &'static str,
    /// The work measured by default on this kind of device.
    pub(crate) presets: fn(DeviceKind) -> Vec<Work>,
    /// The same with sizes of the user's.
    pub(crate) custom: fn(&[usize], DType, Layout) -> Result<Work>,
}

/// The operations that there are.
pub const OPERATIONS: &[Operation] = &[
    linear_scan::OPERATION,
    linear_scan_backward::OPERATION,
    route::OPERATION,
    dispatch::OPERATION,
    dispatch::WITH_ROUTE,
    combine::OPERATION,
    selective_scan::OPERATION,
    projection::OPERATION,
    selective_scan_layer::OPERATION,
    selective_scan_step::OPERATION,
];

/// What the user asked for.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Operations; empty for all.
    pub operations: Vec<String>,
    /// Sizes in place of the presets'.
    pub shape: Option<Vec<usize>>,
    /// Element types; empty for those of the presets, or f32 with `shape`.
    pub dtypes: Vec<DType>,
    /// Layouts; empty for those of the presets, or `[B, L, D]` with `shape`.
    pub layouts: Vec<Layout>,
}

impl Selection {
    /// The work that fits.
    ///
    /// # Errors
    /// [`Error::Argument`] for an operation that is not there, for sizes the operation does
    /// not take, and when nothing is left.
    pub(crate) fn workloads(&self, kind: DeviceKind) -> Result<Vec<Work>> {
        let (mut work, mut refused) = (Vec::new(), None);
        for operation in self.chosen()? {
            match &self.shape {
                // `all` means what this device can do, and what takes such a shape.
                Some(_) if self.is_all() && (operation.presets)(kind).is_empty() => {}
                Some(shape) => match self.add_custom(operation, shape, &mut work) {
                    Err(error) if self.is_all() => {
                        refused.get_or_insert(error);
                    }
                    done => done?,
                },
                None => work.extend((operation.presets)(kind).into_iter().filter(|w| {
                    let layout = w.layout();
                    (self.dtypes.is_empty() || self.dtypes.contains(&w.dtype()))
                        && (self.layouts.is_empty()
                            || layout.is_none_or(|layout| self.layouts.contains(&layout)))
                })),
            }
        }
        if work.is_empty() {
            if let Some(error) = refused {
                return Err(error);
            }
            return Err(argument(
                "selection",
                "none of the preset work of this device",
                "an operation, dtype and layout that the presets have, or a shape",
            ));
        }
        Ok(work)
    }

    fn is_all(&self) -> bool {
        self.operations.is_empty() || self.operations.iter().any(|name| name == "all")
    }

    fn chosen(&self) -> Result<Vec<&'static Operation>> {
        if self.is_all() {
            return Ok(OPERATIONS.iter().collect());
        }
        let find = |name: &String| {
            OPERATIONS
                .iter()
                .find(|operation| operation.name == name)
                .ok_or_else(|| {
                    let names: Vec<_> = OPERATIONS.iter().map(|o| o.name).collect();
                    argument(
                        "operation",
                        format!("`{name}`"),
                        format!("all or one of: {}", names.join(", ")),
                    )
                })
        };
        self.operations.iter().map(find).collect()
    }

    fn add_custom(
        &self,
        operation: &Operation,
        shape: &[usize],
        work: &mut Vec<Work>,
    ) -> Result<()> {
        if shape.contains(&0) {
            let sizes: Vec<_> = shape.iter().map(usize::to_string).collect();
            return Err(argument(
                "shape",
                sizes.join(","),
                "sizes of at least 1: there is nothing to measure in an empty tensor",
            ));
        }
        let or = |list: &[DType]| match list {
            [] => vec![DType::F32],
            list => list.to_vec(),
        };
        let layouts = match self.layouts.as_slice() {
            [] => vec![Layout::Bld],
            list => list.to_vec(),
        };
        for dtype in or(&self.dtypes) {
            for &layout in &layouts {
                let workload = (operation.custom)(shape, dtype, layout)?;
                // An operation without a choice of layout is measured once.
                if workload.layout().is_some() || layout == layouts[0] {
                    work.push(workload);
                }
            }
        }
        Ok(())
    }
}

/// A layout's name in tables and on the command line.
pub fn layout_name(layout: Layout) -> &'static str {
    match layout {
        Layout::Bld => "bld",
        Layout::Bdl => "bdl",
    }
}

pub(crate) fn argument(
    argument: &'static str,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> Error {
    Error::Argument {
        operation: "bench",
        argument,
        found: found.into(),
        expected: expected.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(selection: &Selection, kind: DeviceKind) -> usize {
        selection.workloads(kind).map_or(0, |work| work.len())
    }

    #[test]
    fn presets_by_default() {
        for kind in [DeviceKind::Cpu, DeviceKind::Cuda] {
            let all = count(&Selection::default(), kind);
            let named = Selection {
                operations: vec!["linear-scan".into()],
                ..Selection::default()
            };
            assert!(all >= count(&named, kind) && count(&named, kind) > 0);
            let f32s = Selection {
                dtypes: vec![DType::F32],
                layouts: vec![Layout::Bdl],
                ..named
            };
            let work = f32s.workloads(kind).unwrap();
            assert!(work.iter().all(|w| w.dtype() == DType::F32));
            assert!(work.iter().all(|w| w.layout() == Some(Layout::Bdl)));
        }
    }

    #[test]
    fn custom_shape_times_types_times_layouts() {
        let mut selection = Selection {
            operations: vec!["linear-scan".into()],
            shape: Some(vec![2, 3, 4]),
            ..Selection::default()
        };
        let work = selection.workloads(DeviceKind::Cpu).unwrap();
        assert_eq!(work.len(), 1);
        assert_eq!(work[0].shape(), [2, 3, 4]);
        selection.dtypes = vec![DType::F32, DType::F16, DType::Bf16];
        selection.layouts = vec![Layout::Bld, Layout::Bdl];
        assert_eq!(count(&selection, DeviceKind::Cpu), 6);
    }

    /// Runs every operation on the CPU at sizes that are no multiples of anything: the
    /// oracle must accept what it computes, and find a planted fault and the poison.
    #[test]
    fn oracles_accept_what_is_right_and_nothing_else() {
        // The rows that are compared, all of them, come with the sizes.
        for operation in OPERATIONS {
            match (operation.name, operation.sizes) {
                (_, "B,L,D") => oracle_of(operation, &[2, 37, 5], 10),
                ("projection", "B,L,D,N") => oracle_of(operation, &[2, 37, 5, 3], 74),
                (_, "B,L,D,N") => oracle_of(operation, &[2, 37, 5, 3], 10),
                (_, "B,D,N") => oracle_of(operation, &[2, 5, 3], 10),
                (_, "T,E,K") => oracle_of(operation, &[37, 5, 3], 37),
                ("combine", "T,H,E,K") => oracle_of(operation, &[37, 13, 5, 3], 37),
                (_, "T,H,E,K") => oracle_of(operation, &[37, 13, 5, 3], 111),
                (name, sizes) => panic!("{name}: no shape for {sizes}"),
            }
        }
    }

    fn oracle_of(operation: &Operation, shape: &[usize], rows: usize) {
        let device = Device::cpu();
        let dtypes = match operation.name {
            "route" => vec![DType::I32],
            _ => vec![DType::F32, DType::F16, DType::Bf16],
        };
        let selection = Selection {
            operations: vec![operation.name.to_owned()],
            shape: Some(shape.to_vec()),
            dtypes,
            layouts: vec![Layout::Bld, Layout::Bdl],
        };
        let workloads = selection.workloads(DeviceKind::Cpu).unwrap();
        assert!(!workloads.is_empty());
        for work in workloads {
            let what = format!("{} {} {:?}", work.op(), work.dtype(), work.layout());
            let mut prepared = work.prepare(&device, 3).unwrap();
            prepared.poison().unwrap();
            assert!(!prepared.check().unwrap().ok(), "{what}: poison accepted");
            for _ in 0..3 {
                prepared.launch().unwrap();
                let accuracy = prepared.check().unwrap();
                assert!(accuracy.ok(), "{what}: {accuracy:?}");
                assert_eq!((accuracy.sampled, accuracy.of), (rows, rows), "{what}");
            }
            prepared.plant_fault().unwrap();
            prepared.launch().unwrap();
            assert!(!prepared.check().unwrap().ok(), "{what}: fault accepted");
        }
    }

    /// Without a name, a shape is for the operations that take such a shape.
    #[test]
    fn a_shape_picks_its_operations() {
        let names = |shape: &[usize]| -> Vec<&'static str> {
            let selection = Selection {
                shape: Some(shape.to_vec()),
                ..Selection::default()
            };
            let work = selection.workloads(DeviceKind::Cpu).unwrap();
            work.iter().map(|work| work.op()).collect()
        };
        let scans = ["linear-scan", "linear-scan-backward"];
        assert_eq!(names(&[1, 64, 256])[..2], scans);
        let four = [
            "dispatch",
            "route-dispatch",
            "combine",
            "selective-scan",
            "projection",
            "layer",
        ];
        assert_eq!(names(&[64, 16, 8, 2]), four);
        let three = [&scans[..], &["route", "step"]].concat();
        assert_eq!(names(&[64, 8, 2]), three);
        let none = Selection {
            shape: Some(vec![5; 5]),
            ..Selection::default()
        };
        let error = none.workloads(DeviceKind::Cpu).err().unwrap().to_string();
        assert!(error.contains("5 sizes"), "{error}");
    }

    #[test]
    fn errors_name_what_was_found() {
        let wrong = |selection: Selection| match selection.workloads(DeviceKind::Cpu) {
            Ok(_) => panic!("accepted {selection:?}"),
            Err(error) => error.to_string(),
        };
        let message = wrong(Selection {
            operations: vec!["scan".into()],
            ..Selection::default()
        });
        assert!(message.contains("`scan`") && message.contains("linear-scan"));
        let message = wrong(Selection {
            shape: Some(vec![2, 3]),
            operations: vec!["linear-scan".into()],
            ..Selection::default()
        });
        assert!(message.contains("2 sizes") && message.contains("B,L,D"));
        let message = wrong(Selection {
            shape: Some(vec![2, 0, 4]),
            operations: vec!["linear-scan".into()],
            ..Selection::default()
        });
        assert!(message.contains("2,0,4") && message.contains("at least 1"));
        let message = wrong(Selection {
            dtypes: vec![DType::I64],
            ..Selection::default()
        });
        assert!(message.contains("none of the preset work"));
        let message = wrong(Selection {
            operations: vec!["linear-scan".into()],
            shape: Some(vec![2, 3, 4]),
            dtypes: vec![DType::U8],
            ..Selection::default()
        });
        assert!(message.contains("u8") && message.contains("bf16"));
    }
}
