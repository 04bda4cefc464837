//! Layout, direction, initial state, final state and in place, alone and together.

use super::ORDERS;
use crate::every_type;
use ferroseq::ops::{LinearScan, LinearScanArgs};
use ferroseq_tests::compare::{agrees, conforms, same_bits};
use ferroseq_tests::{Case, Sample, TestDevice};

every_type! { every_combination without_optional_outputs in_place }

fn cases() -> impl Iterator<Item = Case> {
    ORDERS.into_iter().flat_map(|(layout, reverse)| {
        [false, true].into_iter().flat_map(move |initial| {
            [(2, 37, 5), (3, 130, 33), (1, 1, 9), (2, 0, 3)].map(|(batch, length, channels)| {
                let mut case = Case::plain(batch, length, channels, 7);
                case.scan = case.scan.layout(layout).reverse(reverse);
                case.initial = initial;
                case
            })
        })
    })
}

fn every_combination<T: Sample>(device: &TestDevice) -> Result<(), String> {
    cases().try_for_each(|case| conforms::<T>(device, &case.problem()))
}

/// `run` is `run_with` without options: no final state asked for, none touched.
fn without_optional_outputs<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for case in cases().filter(|case| !case.initial) {
        let problem = case.problem::<T>();
        let full = problem.run(&device.device).map_err(|e| e.to_string())?;
        let plain = run_plain(device, &problem.scan, &problem.a, &problem.b)
            .map_err(|error| error.to_string())?;
        same_bits(&problem.describe(), &plain, &full.h)?;
    }
    Ok(())
}

fn run_plain<T: Sample>(
    device: &TestDevice,
    scan: &LinearScan,
    a: &[T],
    b: &[T],
) -> ferroseq::Result<Vec<T>> {
    let device = &device.device;
    let mut h = device.upload(&vec![T::narrow(f32::NAN); b.len()])?;
    scan.run(device, &device.upload(a)?, &device.upload(b)?, &mut h)?;
    h.to_vec()
}

/// `b` absent: `h` holds the inputs. Inputs stay as they were either way.
fn in_place<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for case in cases() {
        let problem = case.problem::<T>();
        let outcome = problem
            .run_in_place(&device.device)
            .map_err(|error| error.to_string())?;
        agrees(device, &problem, &outcome)?;
    }
    Ok(())
}

/// A run writes its outputs and nothing else.
#[test]
fn inputs_are_not_written() {
    crate::on_every_device(|device| {
        let problem = {
            let mut case = Case::plain(2, 70, 33, 3);
            case.initial = true;
            case.problem::<f32>()
        };
        let check = || -> ferroseq::Result<[Vec<f32>; 3]> {
            let device = &device.device;
            let (a, b) = (device.upload(&problem.a)?, device.upload(&problem.b)?);
            let h0 = device.upload(problem.h0.as_deref().unwrap_or_default())?;
            let mut h = device.alloc(problem.b.len())?;
            problem.scan.run_with(
                device,
                LinearScanArgs {
                    a: &a,
                    b: Some(&b),
                    h: &mut h,
                    h0: Some(&h0),
                    final_state: None,
                    offsets: None,
                },
            )?;
            Ok([a.to_vec()?, b.to_vec()?, h0.to_vec()?])
        };
        let [a, b, h0] = check().map_err(|error| error.to_string())?;
        same_bits("a after the run", &a, &problem.a)?;
        same_bits("b after the run", &b, &problem.b)?;
        same_bits(
            "h0 after the run",
            &h0,
            problem.h0.as_deref().unwrap_or_default(),
        )
    });
}
