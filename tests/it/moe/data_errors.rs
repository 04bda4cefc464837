//! What is wrong with ids, slots and offsets is found on the device: the error names the
//! first token and its value, the output is withheld, and nothing is accessed out of bounds
//! (the emulator would say so).

use super::{failed, same};
use crate::on_every_device;
use ferroseq::ops::{
    Combine, CombineArgs, CombineBackward, CombineBackwardArgs, Dispatch, DispatchArgs,
    DispatchBackward, DispatchBackwardArgs, InvalidIds, Route, RouteArgs, Routing, Slots, Status,
};
use ferroseq::{Device, Error};
use ferroseq_tests::moe::{Choice, Scene, ids, read};

/// A faulty routing of [T, K, E] = [4, 2, 3] into 12 rows, and words of its message.
struct Fault {
    ids: [i64; 8],
    slot_idx: [i32; 8],
    expert_offsets: [i32; 4],
    expected: &'static [&'static str],
}

const SOUND: Fault = Fault {
    ids: [0, 1, 2, 0, 1, 2, 0, 1],
    slot_idx: [0, 0, 0, 1, 1, 1, 2, 2],
    expert_offsets: [0, 4, 7, 10],
    expected: &[],
};

fn faults() -> Vec<Fault> {
    let offsets = |expert_offsets, expected| Fault {
        expert_offsets,
        expected,
        ..SOUND
    };
    let slot = |at: usize, slot, expected| {
        let mut fault = Fault { expected, ..SOUND };
        fault.slot_idx[at] = slot;
        fault
    };
    let id = |at: &[(usize, i64)], expected| {
        let mut fault = Fault { expected, ..SOUND };
        at.iter().for_each(|(at, id)| fault.ids[*at] = *id);
        fault
    };
    let mut faults = vec![
        offsets([1, 4, 7, 10], &["`expert_offsets` is 1 at position 0"]),
        offsets([-1, 4, 7, 10], &["`expert_offsets` is -1 at position 0"]),
        offsets([0, 4, 3, 10], &["`expert_offsets` is 3 at position 2"]),
        offsets([0, 7, 4, 3], &["`expert_offsets` is 4 at position 2"]),
        offsets([0, 4, 7, -5], &["`expert_offsets` is -5 at position 3"]),
        offsets(
            [0, 4, 7, 13],
            &["`expert_offsets` is 13 at position 3", "at most 12 rows"],
        ),
        offsets(
            [0, i32::MAX, i32::MAX, i32::MAX],
            &["`expert_offsets` is 2147483647 at position 1"],
        ),
        // An end within the rows does not save the middle.
        offsets([0, 99, 7, 10], &["`expert_offsets` is 99 at position 1"]),
        slot(4, 3, &["`slot_idx` is 3 at token 2, k 0", "expert_offsets"]),
        slot(4, -2, &["`slot_idx` is -2 at token 2, k 0"]),
        slot(7, i32::MAX, &["`slot_idx` is 2147483647 at token 3, k 1"]),
        slot(0, i32::MIN, &["`slot_idx` is -2147483648 at token 0, k 0"]),
        id(
            &[(3, 3)],
            &["`expert_ids` is 3 at token 1, k 1", "expected 0 to 2"],
        ),
        id(&[(6, -1)], &["`expert_ids` is -1 at token 3, k 0"]),
        // The first of several.
        id(&[(5, 77), (2, 88)], &["`expert_ids` is 88 at token 1, k 0"]),
        id(
            &[(1, 1 << 40)],
            &["`expert_ids` is 2147483647 or more at token 0, k 1"],
        ),
        id(
            &[(1, i64::MIN)],
            &["`expert_ids` is -2147483648 or less at token 0, k 1"],
        ),
    ];
    // Offsets come first, then ids, then slots, whichever token they are of.
    let mut both = slot(0, 9, &["`expert_ids` is 5 at token 3, k 1"]);
    both.ids[7] = 5;
    faults.push(both);
    faults
}

const WIDTH: usize = 5;
const ROWS: usize = 12;

const DISPATCH: Dispatch = Dispatch {
    tokens: 4,
    top_k: 2,
    experts: 3,
    hidden: WIDTH,
    rows: ROWS,
};

const COMBINE: Combine = Combine {
    tokens: 4,
    top_k: 2,
    experts: 3,
    hidden: WIDTH,
    rows: ROWS,
};

/// The outcome of an operation with this routing, enqueued and then finished.
type Run = fn(&Device, Routing<'_, i64>, &mut Status) -> Result<(), Error>;

const RUNS: [(&str, Run); 4] = [
    ("dispatch", run_dispatch),
    ("combine", run_combine),
    ("dispatch backward", run_dispatch_backward),
    ("combine backward", run_combine_backward),
];

/// With `Slots`, nothing is written when the routing is wrong.
fn run_dispatch(
    device: &Device,
    routing: Routing<'_, i64>,
    status: &mut Status,
) -> Result<(), Error> {
    let mut packed = device.upload(&[42f32; ROWS * WIDTH])?;
    let bytes = DISPATCH.workspace_bytes(device, &routing)?;
    DISPATCH.run_with(
        device,
        DispatchArgs {
            hidden: &device.upload(&[1f32; 4 * WIDTH])?,
            routing,
            packed: &mut packed,
            status,
            workspace: Some(&mut device.alloc(bytes)?),
        },
    )?;
    let finished = status.finish();
    if finished.is_err() && matches!(routing, Routing::Slots(_)) {
        let packed = packed.to_vec()?;
        assert!(packed.iter().all(|&value| value == 42.0), "{packed:?}");
    }
    finished
}

fn run_combine(
    device: &Device,
    routing: Routing<'_, i64>,
    status: &mut Status,
) -> Result<(), Error> {
    COMBINE.run_with(
        device,
        CombineArgs {
            packed: &device.upload(&[1f32; ROWS * WIDTH])?,
            routing,
            weights: None,
            out: &mut device.alloc(4 * WIDTH)?,
            status,
        },
    )?;
    status.finish()
}

fn run_dispatch_backward(
    device: &Device,
    routing: Routing<'_, i64>,
    status: &mut Status,
) -> Result<(), Error> {
    let op = DispatchBackward::new(DISPATCH);
    let bytes = op.workspace_bytes(device, &routing)?;
    op.run_with(
        device,
        DispatchBackwardArgs {
            grad_packed: &device.upload(&[1f32; ROWS * WIDTH])?,
            routing,
            grad_hidden: &mut device.alloc(4 * WIDTH)?,
            status,
            workspace: Some(&mut device.alloc(bytes)?),
        },
    )?;
    status.finish()
}

fn run_combine_backward(
    device: &Device,
    routing: Routing<'_, i64>,
    status: &mut Status,
) -> Result<(), Error> {
    let op = CombineBackward::new(COMBINE);
    let bytes = op.workspace_bytes(device, &routing)?;
    op.run_with(
        device,
        CombineBackwardArgs {
            grad_out: &device.upload(&[1f32; 4 * WIDTH])?,
            packed: Some(&device.upload(&[1f32; ROWS * WIDTH])?),
            routing,
            weights: None,
            grad_packed: &mut device.alloc(ROWS * WIDTH)?,
            grad_weights: Some(&mut device.alloc(8)?),
            status,
            workspace: Some(&mut device.alloc(bytes)?),
        },
    )?;
    status.finish()
}

fn run_fault(device: &Device, run: Run, fault: &Fault, status: &mut Status) -> Result<(), Error> {
    let ids = device.upload(&fault.ids)?;
    let slot_idx = device.upload(&fault.slot_idx)?;
    let expert_offsets = device.upload(&fault.expert_offsets)?;
    let slots = Slots {
        expert_ids: &ids,
        slot_idx: &slot_idx,
        expert_offsets: &expert_offsets,
    };
    run(device, slots.into(), status)
}

#[test]
fn faults_of_slots_are_named() {
    on_every_device(|device| {
        let device = &device.device;
        let mut status = failed(&"status", Status::new(device))?;
        for (name, run) in RUNS {
            failed(&name, run_fault(device, run, &SOUND, &mut status))?;
            for fault in faults() {
                let error = run_fault(device, run, &fault, &mut status);
                let error = error.expect_err(fault.expected[0]).to_string();
                let right = error.starts_with(&format!("{name}: "))
                    && fault.expected.iter().all(|words| error.contains(words));
                if !right {
                    return Err(format!("{device}: {name}: {error}: {:?}", fault.expected));
                }
            }
            // The status is as new after each of them.
            failed(&name, run_fault(device, run, &SOUND, &mut status))?;
        }
        Ok(())
    });
}

/// An entry without a row may have any id: that of an invalid id that route dropped.
#[test]
fn dropped_entries_may_have_any_id() {
    on_every_device(|device| {
        let mut fault = SOUND;
        (fault.ids[2], fault.slot_idx[2]) = (-1, -1);
        (fault.ids[7], fault.slot_idx[7]) = (1 << 40, -1);
        let mut status = failed(&"status", Status::new(&device.device))?;
        RUNS.into_iter().try_for_each(|(name, run)| {
            let run = run_fault(&device.device, run, &fault, &mut status);
            failed(&name, run)
        })
    });
}

#[test]
fn invalid_ids_are_errors_of_route() {
    on_every_device(|device| {
        let large = device.cases.large;
        let device = &device.device;
        let op = Route::new(if large { 40_000 } else { 300 }, 2, 5);
        let sound = ids(&op, Choice::Random, 101);
        let last = sound.len() - 1;
        for (bad, words) in [
            (vec![(0, 5)], "is 5 at token 0, k 0, expected 0 to 4"),
            (vec![(last, -1), (7, -3)], "is -3 at token 3, k 1"),
            (vec![(last - 1, 1 << 33)], "is 2147483647 or more at token"),
            (vec![(last, i64::MIN), (last - 1, 6)], "is 6 at token"),
        ] {
            let mut ids = sound.clone();
            bad.iter().for_each(|(at, id)| ids[*at] = *id);
            let buffer = failed(&op, device.upload(&ids))?;
            let error = op.run(device, &buffer).expect_err(words).to_string();
            if !error.contains(&format!("route: `expert_ids` {words}")) {
                return Err(format!("{device}: {error}, expected {words}"));
            }

            // What was started and not yet finished is sound: those entries are dropped.
            let mut plan = failed(&op, op.plan(device))?;
            let mut status = failed(&op, Status::new(device))?;
            let bytes = failed(&op, op.workspace_bytes(device))?;
            let args = RouteArgs {
                expert_ids: &buffer,
                plan: &mut plan,
                status: &mut status,
                workspace: Some(&mut failed(&op, device.alloc(bytes))?),
            };
            failed(&op, op.run_with(device, args))?;
            let expected = Scene::of(op, ids).routed;
            let found = read(&plan)?;
            same("slot_idx", &found.slot_idx, &expected.slot_idx)?;
            same(
                "source_of_row",
                &found.source_of_row,
                &expected.source_of_row,
            )?;
            assert!(status.finish().is_err());
            failed(&op, status.finish())?;

            let dropping = op.invalid(InvalidIds::Drop);
            failed(&dropping, dropping.run(device, &buffer))?;
        }
        Ok(())
    });
}

/// A status may serve several operations and keeps the first fault of each kind, whatever
/// comes after it.
#[test]
fn a_status_keeps_faults_until_it_is_asked() {
    on_every_device(|device| {
        let device = &device.device;
        let op = Route::new(3, 1, 2);
        let mut status = failed(&op, Status::new(device))?;
        let mut plan = failed(&op, op.plan(device))?;
        let bytes = failed(&op, op.workspace_bytes(device))?;
        let mut workspace = failed(&op, device.alloc(bytes))?;
        for ids in [[0, 1, 9], [0, 8, 0], [1, 1, 1]] {
            let args = RouteArgs {
                expert_ids: &failed(&op, device.upload(&ids))?,
                plan: &mut plan,
                status: &mut status,
                workspace: Some(&mut workspace),
            };
            failed(&op, op.run_with(device, args))?;
        }
        let error = status.finish().expect_err("two faults").to_string();
        assert!(error.contains("is 8 at token 1, k 0"), "{error}");
        failed(&op, status.finish())
    });
}

/// A plan with more rows than the packed tensor has.
#[test]
fn too_few_rows_for_a_plan() {
    on_every_device(|device| {
        let device = &device.device;
        // 12 rows would do; alignment makes it 15.
        let scene = Scene::of(
            Route::new(4, 2, 3).alignment(5),
            vec![0, 1, 2, 0, 1, 2, 0, 2],
        );
        let plan = failed(&scene, scene.plan(device))?;
        let mut status = failed(&scene, Status::new(device))?;
        for (name, run) in RUNS {
            let error = run(device, Routing::Plan(&plan), &mut status);
            let error = error.expect_err("rows past the end").to_string();
            let words = format!("{name}: `routing` is row 12 at token 3, k 1");
            assert!(error.starts_with(&words), "{device}: {error}");
            assert!(error.contains("below 12"), "{error}");
        }
        Ok(())
    });
}

/// The gradient by a row that two entries read would be a sum: not what this computes.
#[test]
fn rows_of_two_entries_have_no_gradient() {
    on_every_device(|device| {
        let mut fault = SOUND;
        // Entries 3 and 6 both have row 2 of expert 0; entries 4 and 7 row 1 of expert 1.
        fault.slot_idx = [0, 0, 0, 2, 1, 1, 2, 1];
        let mut status = failed(&"status", Status::new(&device.device))?;
        let error = run_fault(&device.device, run_combine_backward, &fault, &mut status);
        let error = error.expect_err("shared rows").to_string();
        let words = "combine backward: `slot_idx` is row 2 at token 1, k 1";
        assert!(error.starts_with(words), "{error}");
        for (name, run) in &RUNS[..3] {
            failed(name, run_fault(&device.device, *run, &fault, &mut status))?;
        }
        Ok(())
    });
}
