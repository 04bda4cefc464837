//! A report as a large GPU might give it, for tests of what is made of reports.

use super::presets;
use super::row::*;
use super::stats::Timing;
use crate::device::DeviceKind;
use crate::ops::Layout;

fn time(us: f64) -> Timing {
    Timing {
        median_us: us,
        p10_us: us * 0.99,
        p90_us: us * 1.02,
        samples: 50,
    }
}

fn warm(us: f64) -> Warm {
    Warm {
        time: time(us),
        method: WarmMethod::Graph,
        launches: 20,
    }
}

fn rate(billions: f64, amount: u64) -> Rate {
    let us = amount as f64 / billions / 1e3;
    Rate::new(amount, time(us), "4 blocks each".to_owned())
}

/// The presets' rows.
pub(super) fn sample_report() -> Report {
    sample_report_with(presets::linear_scan(DeviceKind::Cuda).len())
}

/// `count` rows, the presets' over and over.
pub(super) fn sample_report_with(count: usize) -> Report {
    let presets = presets::linear_scan(DeviceKind::Cuda);
    let ceilings = Ceilings {
        copy: rate(4252.0, 805_306_368),
        triad: rate(4091.0, 805_306_368),
        write: rate(4410.0, 805_306_368),
        exp2: Some(rate(4130.0, 1 << 34)),
        fma: Some(rate(33_200.0, 1 << 34)),
    };
    let rows = presets.iter().cycle().take(count).enumerate();
    let rows = rows
        .map(|(i, preset)| {
            let elements = preset.shape.iter().product::<usize>() as u64;
            let bytes = 3 * elements * preset.dtype.size() as u64;
            let bytes_us = ceilings.triad.floor_us(bytes);
            let fma_us = ceilings.fma.as_ref().unwrap().floor_us(elements);
            // From 99 down to 60 percent of the floor.
            let over = 1.01 + 0.04 * (i % 17) as f64;
            let us = bytes_us * over;
            Row {
                op: "linear-scan".to_owned(),
                shape: preset.shape.to_vec(),
                dtype: preset.dtype.name().to_owned(),
                layout: Some(
                    match preset.layout {
                        Layout::Bld => "bld",
                        Layout::Bdl => "bdl",
                    }
                    .to_owned(),
                ),
                device: "cuda:0 (NVIDIA H200)".to_owned(),
                bytes,
                operations: Operations {
                    fma: elements,
                    exp2: 0,
                },
                ceiling: Stream::Triad,
                cold: Some(time(us)),
                warm: Some(warm(us * 0.97)),
                gbps: Some(per_us(bytes, us)),
                of_ceiling: Some(1.0 / over),
                of_same_size: Some(1.005 / over),
                floor: Some(Floor {
                    bytes_us,
                    operations_us: Some(fma_us),
                    launch_us: 2.4,
                    binds: Binds::Bytes,
                    over,
                }),
                error: Some(Accuracy {
                    relative: 9.3e-8,
                    max_abs: 1.2e-6,
                    worst: 0.12,
                    tolerance: 3.9e-6,
                    sampled: 512,
                    of: 8192,
                }),
                peer: None,
                warm_peer: None,
                status: Status::Ok,
                notes: Vec::new(),
            }
        })
        .collect();
    Report {
        version: "0.1.0".to_owned(),
        commit: Some("abc1234".to_owned()),
        date: "2026-01-02T03:04:05Z".to_owned(),
        device: "cuda:0 (NVIDIA H200)".to_owned(),
        driver: Some("580.95".to_owned()),
        launch_floor: LaunchFloor {
            cold: time(2.4),
            warm: warm(1.16),
        },
        ceilings,
        rows,
        notes: Vec::new(),
    }
}
