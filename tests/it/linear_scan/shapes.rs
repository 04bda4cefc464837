//! Every size: zero, one, primes, and around the edges of tiles.

use crate::every_type;
use ferroseq::ops::Layout;
use ferroseq_tests::compare::conforms;
use ferroseq_tests::{Case, Sample, TestDevice};
use gpu_kernels::linear_scan::policy;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Around every power of two that could be a tile, and a few primes.
fn lengths(device: &TestDevice) -> Vec<usize> {
    let edges = (5..=11).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]);
    [0, 1, 2, 3, 5, 7, 13, 97]
        .into_iter()
        .chain(edges)
        .filter(|&length| length <= device.cases.longest)
        .collect()
}

/// Around the kernels' block and around 16 bytes of each type, and a few primes.
fn channels() -> Vec<usize> {
    let block = policy::BLOCK as usize;
    vec![
        0,
        1,
        2,
        3,
        4,
        5,
        7,
        8,
        9,
        15,
        16,
        17,
        31,
        32,
        33,
        61,
        block - 1,
        block,
        block + 1,
        block + 2,
        2 * block - 1,
        2 * block + 4,
    ]
}

every_type! { length_edges channel_edges batches large random_shapes_and_options }

fn length_edges<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for length in lengths(device) {
        for (batch, channels) in [(1, 1), (2, 3), (1, 12), (1, 130)] {
            for layout in [Layout::Bld, Layout::Bdl] {
                let mut case = Case::plain(batch, length, channels, length as u64);
                case.scan = case.scan.layout(layout);
                conforms::<T>(device, &case.problem())?;
            }
        }
    }
    Ok(())
}

fn channel_edges<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for channels in channels() {
        for (batch, length) in [(1, 1), (2, 7), (1, 33)] {
            for layout in [Layout::Bld, Layout::Bdl] {
                let mut case = Case::plain(batch, length, channels, channels as u64);
                case.scan = case.scan.layout(layout);
                case.initial = true;
                conforms::<T>(device, &case.problem())?;
            }
        }
    }
    Ok(())
}

fn batches<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for batch in [0, 1, 2, 3, 31, 32, 33, 127, 257] {
        for (length, channels) in [(0, 4), (1, 1), (5, 3), (2, 0)] {
            let mut case = Case::plain(batch, length, channels, batch as u64);
            case.initial = true;
            conforms::<T>(device, &case.problem())?;
        }
    }
    Ok(())
}

fn large<T: Sample>(device: &TestDevice) -> Result<(), String> {
    if !device.cases.large {
        return Ok(());
    }
    for layout in [Layout::Bld, Layout::Bdl] {
        let mut case = Case::plain(2, 3000, 130, 1);
        case.scan = case.scan.layout(layout);
        conforms::<T>(device, &case.problem())?;
    }
    Ok(())
}

/// Any shape with any options; a failure is shrunk and printed with its seed.
fn random_shapes_and_options<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let config = Config {
        cases: device.cases.random,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&any_case(device.cases.longest), |case| {
            conforms::<T>(device, &case.problem()).map_err(TestCaseError::fail)
        })
        .map_err(|error| error.to_string())
}

/// Half of the cases packed; lengths mostly short, sometimes up to `longest`.
fn any_case(longest: usize) -> impl Strategy<Value = Case> {
    let length = prop_oneof![4 => 0..=40usize, 2 => 0..=300usize, 1 => 0..=longest];
    let shape = prop_oneof![
        (0..=4usize, length.clone()).prop_map(|(batch, length)| (batch, length, None)),
        prop::collection::vec(length, 0..=6).prop_map(|lengths| (
            1,
            lengths.iter().sum(),
            Some(lengths)
        )),
    ];
    let options = (any::<bool>(), any::<bool>(), any::<bool>());
    (shape, 0..=70usize, options, any::<u64>()).prop_map(
        |((batch, length, lengths), channels, (bdl, reverse, initial), seed)| {
            let mut case = Case::plain(batch, length, channels, seed);
            let layout = if bdl { Layout::Bdl } else { Layout::Bld };
            case.scan = case.scan.layout(layout).reverse(reverse);
            case.lengths = lengths;
            case.initial = initial;
            case
        },
    )
}
