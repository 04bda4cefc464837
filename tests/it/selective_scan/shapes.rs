//! Every size: zero, one, primes, around powers of two; every N; groups.

use super::affords;
use crate::every_type;
use ferroseq::ops::Layout;
use ferroseq_tests::compare::selective_conforms;
use ferroseq_tests::{Sample, SelectiveCase, TestDevice};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

every_type! { on crate::selective_scan::SCAN: lengths channels states groups empty random }

const LAYOUTS: [Layout; 2] = [Layout::Bld, Layout::Bdl];

fn all<T: Sample>(
    device: &TestDevice,
    shapes: impl IntoIterator<Item = [usize; 4]>,
) -> Result<(), String> {
    let shapes = shapes.into_iter().filter(|&shape| affords(device, shape));
    for (seed, shape) in shapes.enumerate() {
        for layout in LAYOUTS {
            let mut case = SelectiveCase::full(shape, seed as u64);
            case.scan = case.scan.layout(layout);
            selective_conforms::<T>(device, &case.problem())?;
        }
    }
    Ok(())
}

fn lengths<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let few = [
        1, 2, 3, 5, 7, 8, 13, 31, 32, 33, 63, 64, 65, 97, 127, 128, 129,
    ];
    let many = [255, 256, 257, 511, 512, 513, 1023, 1025, 2047, 2049];
    all::<T>(device, few.map(|length| [1, length, 3, 4]))?;
    all::<T>(device, many.map(|length| [2, length, 5, 4]))
}

fn channels<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let few = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 129];
    all::<T>(device, few.map(|channels| [1, 7, channels, 4]))?;
    all::<T>(
        device,
        [61, 64, 127, 128, 130, 257].map(|channels| [2, 35, channels, 16]),
    )
}

fn states<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let sizes = [
        1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 100, 128, 129, 255, 256,
    ];
    all::<T>(device, sizes.map(|state| [1, 5, 3, state]))?;
    all::<T>(device, sizes.map(|state| [2, 70, 34, state]))
}

fn groups<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for (seed, (shape, groups)) in [
        ([2, 9, 6, 4], 2),
        ([1, 9, 6, 3], 6),
        ([1, 33, 12, 8], 3),
        ([2, 33, 34, 16], 2),
        ([1, 40, 96, 5], 3),
        ([2, 130, 64, 8], 64),
    ]
    .into_iter()
    .filter(|&(shape, _)| affords(device, shape))
    .enumerate()
    {
        for layout in LAYOUTS {
            let mut case = SelectiveCase::full(shape, seed as u64);
            case.scan = case.scan.layout(layout).groups(groups);
            selective_conforms::<T>(device, &case.problem())?;
        }
    }
    Ok(())
}

/// No sequence, no channel: nothing to do. No time step: final states all the same.
fn empty<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let shapes = [[0, 5, 3, 4], [2, 0, 3, 4], [2, 5, 0, 4], [0, 0, 0, 1]];
    all::<T>(device, shapes)
}

/// Any shape with any options; a failure is shrunk and printed with its seed.
fn random<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let config = Config {
        cases: device.cases.random,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&any_case(device.cases.large), |case| {
            selective_conforms::<T>(device, &case.problem()).map_err(TestCaseError::fail)
        })
        .map_err(|error| error.to_string())
}

fn any_case(large: bool) -> impl Strategy<Value = SelectiveCase> {
    let longest = if large { 300usize } else { 40 };
    let length = prop_oneof![3 => 0..=20usize, 1 => 0..=longest];
    let sequences = prop_oneof![
        (0..=3usize, length.clone()).prop_map(|(batch, length)| (batch, length, None)),
        prop::collection::vec(length, 0..=4).prop_map(|lengths| (
            1,
            lengths.iter().sum(),
            Some(lengths)
        )),
    ];
    let widest = if large { 20usize } else { 3 };
    let state = prop_oneof![4 => 1..=17usize, 1 => 1..=if large { 256usize } else { 40 }];
    let options = any::<[bool; 7]>();
    (
        sequences,
        1..=widest,
        1..=3usize,
        state,
        options,
        any::<u64>(),
    )
        .prop_map(
            |((batch, length, lengths), per_group, groups, state, options, seed)| {
                let [bdl, softplus, log, skip, bias, gate, initial] = options;
                let mut case =
                    SelectiveCase::plain([batch, length, per_group * groups, state], seed);
                let layout = if bdl { Layout::Bdl } else { Layout::Bld };
                case.scan = case.scan.layout(layout).groups(groups).softplus(softplus);
                SelectiveCase {
                    lengths,
                    log,
                    skip,
                    bias,
                    gate,
                    initial,
                    ..case
                }
            },
        )
}
