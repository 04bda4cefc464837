//! Wrong arguments: the right error before anything is touched, on every device.

use ferroseq::ops::{
    Combine, CombineArgs, CombineBackward, CombineBackwardArgs, Dispatch, DispatchArgs, Route,
    RouteArgs, Routing, Slots, Status,
};
use ferroseq::{Device, Error};
use ferroseq_tests::devices;

const DISPATCH: Dispatch = Dispatch {
    tokens: 3,
    top_k: 2,
    experts: 4,
    hidden: 5,
    rows: 7,
};

fn message<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn expect(message: &str, words: &[&str]) {
    for words in words {
        assert!(message.contains(words), "{message}, expected {words}");
    }
}

#[test]
fn sizes_out_of_range() {
    let device = Device::cpu();
    for (op, words) in [
        (Route::new((1 << 24) + 1, 1, 1), "`tokens` is 16777217"),
        (Route::new(1, 0, 1), "`top_k` is 0, expected 1 to 32"),
        (Route::new(1, 33, 1), "`top_k` is 33, expected 1 to 32"),
        (Route::new(1, 1, 0), "`experts` is 0, expected 1 to 1024"),
        (Route::new(1, 1, 1025), "`experts` is 1025"),
        (Route::new(1, 1, 1).alignment(0), "`alignment` is 0"),
        (
            Route::new(1024, 1, 1024).alignment(1 << 31),
            "more elements than can be addressed",
        ),
        (
            Route::new(1024, 1, 1024).alignment(usize::MAX),
            "more elements than can be addressed",
        ),
    ] {
        for text in [
            message(op.rows()),
            message(op.plan(&device)),
            message(op.workspace_bytes(&device)),
        ] {
            expect(&text, &["route: ", words]);
        }
    }
    assert_eq!(Route::new(1 << 24, 32, 1024).rows().unwrap(), 1 << 29);

    let plan = Route::new(3, 2, 4).plan(&device).unwrap();
    let routing = Routing::from(&plan);
    for (op, words) in [
        (
            Dispatch {
                rows: 1 << 31,
                ..DISPATCH
            },
            "`rows` is 2147483648, expected 0 to 2147483647",
        ),
        (
            Dispatch {
                hidden: usize::MAX,
                ..DISPATCH
            },
            "[T, H] = [3, 18446744073709551615] has more elements",
        ),
        (
            Dispatch {
                experts: 2000,
                ..DISPATCH
            },
            "`experts` is 2000",
        ),
    ] {
        expect(
            &message(op.workspace_bytes(&device, &routing)),
            &["dispatch: ", words],
        );
    }
}

/// Lengths of the buffers of a run, in the order of the names.
type Lengths = [usize; 6];
const NAMES: [&str; 6] = [
    "hidden",
    "expert_ids",
    "slot_idx",
    "expert_offsets",
    "packed",
    "weights",
];
const RIGHT: Lengths = [15, 6, 6, 5, 35, 6];

fn run_dispatch(device: &Device, lengths: Lengths, elsewhere: Option<usize>) -> Result<(), Error> {
    let cpu = Device::emulated();
    let on = |at: usize| if elsewhere == Some(at) { &cpu } else { device };
    let mut status = Status::new(device)?;
    let mut packed = on(4).upload(&vec![42f32; lengths[4]])?;
    let hidden = on(0).upload(&vec![1f32; lengths[0]])?;
    let ids = on(1).upload(&vec![0i32; lengths[1]])?;
    let slot_idx = on(2).upload(&vec![-1i32; lengths[2]])?;
    let expert_offsets = on(3).upload(&vec![0i32; lengths[3]])?;
    let slots = Routing::from(Slots {
        expert_ids: &ids,
        slot_idx: &slot_idx,
        expert_offsets: &expert_offsets,
    });
    let bytes = DISPATCH.workspace_bytes(device, &slots)?;
    let result = DISPATCH.run_with(
        device,
        DispatchArgs {
            hidden: &hidden,
            routing: slots,
            packed: &mut packed,
            status: &mut status,
            workspace: Some(&mut device.alloc(bytes)?),
        },
    );
    if result.is_err() {
        let packed = packed.to_vec()?;
        assert!(packed.iter().all(|&value| value == 42.0), "{packed:?}");
    }
    result
}

fn run_combine(device: &Device, lengths: Lengths) -> Result<(), Error> {
    let combine = Combine {
        tokens: 3,
        top_k: 2,
        experts: 4,
        hidden: 5,
        rows: 7,
    };
    combine.run_with(
        device,
        CombineArgs {
            packed: &device.upload(&vec![1f32; lengths[4]])?,
            routing: Routing::from(Slots {
                expert_ids: &device.upload(&vec![0i64; lengths[1]])?,
                slot_idx: &device.upload(&vec![-1i32; lengths[2]])?,
                expert_offsets: &device.upload(&vec![0i32; lengths[3]])?,
            }),
            weights: Some(&device.upload(&vec![1f32; lengths[5]])?),
            out: &mut device.alloc(lengths[0])?,
            status: &mut Status::new(device)?,
        },
    )
}

#[test]
fn lengths() {
    for device in devices().iter().map(|device| &device.device) {
        run_dispatch(device, RIGHT, None).unwrap();
        run_combine(device, RIGHT).unwrap();
        for (at, name) in NAMES.into_iter().enumerate() {
            for wrong in [0, RIGHT[at] - 1, RIGHT[at] + 1] {
                let mut lengths = RIGHT;
                lengths[at] = wrong;
                let found = format!("`{name}` holds {wrong} elements, expected {}", RIGHT[at]);
                if name != "weights" {
                    expect(&message(run_dispatch(device, lengths, None)), &[&found]);
                }
                let found = found.replace("hidden", "out");
                expect(
                    &message(run_combine(device, lengths)),
                    &["combine: ", &found],
                );
            }
        }
    }
}

#[test]
fn buffers_of_another_device() {
    for device in devices().iter().map(|device| &device.device) {
        for (at, name) in NAMES.into_iter().enumerate().take(5) {
            let text = message(run_dispatch(device, RIGHT, Some(at)));
            expect(&text, &[&format!("dispatch: `{name}` lives on emulated")]);
        }
        // Plan and status, too.
        let other = Device::emulated();
        let op = Route::new(3, 2, 4);
        let ids = device.upload(&[0i32; 6]).unwrap();
        let (mut plan, mut status) = (op.plan(device).unwrap(), Status::new(device).unwrap());
        let (mut far_plan, mut far_status) =
            (op.plan(&other).unwrap(), Status::new(&other).unwrap());
        let far = op.run_with(
            device,
            RouteArgs {
                expert_ids: &ids,
                plan: &mut far_plan,
                status: &mut status,
                workspace: None,
            },
        );
        expect(&message(far), &["route: `plan` lives on emulated"]);
        let far = op.run_with(
            device,
            RouteArgs {
                expert_ids: &ids,
                plan: &mut plan,
                status: &mut far_status,
                workspace: None,
            },
        );
        expect(&message(far), &["route: `status` lives on emulated"]);
    }
}

#[test]
fn plans() {
    for device in devices().iter().map(|device| &device.device) {
        let op = Route::new(3, 2, 4);
        let ids = device.upload(&[0i32; 6]).unwrap();
        let hidden = device.upload(&[0f32; 15]).unwrap();
        let empty = op.plan(device).unwrap();
        let text = message(DISPATCH.run(device, &hidden, &empty));
        expect(
            &text,
            &["`plan` is empty, expected a plan that route has filled"],
        );
        let other = Route::new(6, 1, 4);
        let plan = other.run(device, &ids).unwrap();
        let text = message(DISPATCH.run(device, &hidden, &plan));
        expect(
            &text,
            &["`plan` is for [T, K, E] = [6, 1, 4], expected one for [T, K, E] = [3, 2, 4]"],
        );
        let mut plan = op.capacity(Some(1)).plan(device).unwrap();
        let mut status = Status::new(device).unwrap();
        let text = message(op.run_with(
            device,
            RouteArgs {
                expert_ids: &ids,
                plan: &mut plan,
                status: &mut status,
                workspace: None,
            },
        ));
        expect(&text, &["route: `plan` is for Route", "capacity: Some(1)"]);
    }
}

#[test]
fn workspaces() {
    for device in devices().iter().map(|device| &device.device) {
        let op = Route::new(3, 2, 4);
        let bytes = op.workspace_bytes(device).unwrap();
        if bytes == 0 {
            continue;
        }
        let ids = device.upload(&[0i32; 6]).unwrap();
        let (mut plan, mut status) = (op.plan(device).unwrap(), Status::new(device).unwrap());
        let mut small = device.alloc(bytes - 1).unwrap();
        let text = message(op.run_with(
            device,
            RouteArgs {
                expert_ids: &ids,
                plan: &mut plan,
                status: &mut status,
                workspace: Some(&mut small),
            },
        ));
        let expected = format!("at least {bytes} bytes");
        expect(&text, &["route: `workspace` is", &expected]);
    }
}

#[test]
fn gradients_by_weights_need_the_packed_rows() {
    let device = Device::cpu();
    let plan = Route::new(1, 1, 1).run(&device, &device.upload(&[0]).unwrap());
    let op = CombineBackward::new(Combine {
        tokens: 1,
        top_k: 1,
        experts: 1,
        hidden: 1,
        rows: 1,
    });
    let text = message(op.run_with(
        &device,
        CombineBackwardArgs {
            grad_out: &device.upload(&[1f32]).unwrap(),
            packed: None,
            routing: Routing::from(&plan.unwrap()),
            weights: None,
            grad_packed: &mut device.alloc(1).unwrap(),
            grad_weights: Some(&mut device.alloc(1).unwrap()),
            status: &mut Status::new(&device).unwrap(),
            workspace: None,
        },
    ));
    expect(&text, &["combine backward: `packed` is absent"]);
}
