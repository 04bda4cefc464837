//! `ferroseq scan`, from files to files, compared with the oracle on every device.

use super::files::{
    Stored, npy, npy_inputs, npy_outcome, read_npy, read_tensor, safetensors_inputs, shape_of,
    state_shape_of,
};
use super::scene::Scene;
use crate::{every_type, on_every_device};
use ferroseq::ops::Layout;
use ferroseq_tests::compare::{agrees, same_bits, same_outcome};
use ferroseq_tests::{Case, Outcome, Problem, Sample, TestDevice};
use half::{bf16, f16};

/// [B, L, D] = [2, 37, 5] with an initial state.
fn small<T: Sample>() -> Problem<T> {
    let mut case = Case::plain(2, 37, 5, 47);
    case.initial = true;
    case.problem()
}

/// Runs the scan over the problem's `.npy` files with these options.
fn scan_npy<T: Sample + Stored + npyz::Deserialize>(
    device: &TestDevice,
    problem: &Problem<T>,
    options: &str,
) -> Outcome<T> {
    let scene = Scene::with(&npy_inputs(problem));
    let h0 = if problem.h0.is_some() {
        "--h0 h0.npy"
    } else {
        ""
    };
    let spec = device.spec;
    scene
        .run(&format!(
            "scan --a a.npy --b b.npy {h0} --out h.npy --final-state hT.npy --device {spec} {options}"
        ))
        .ok();
    npy_outcome(problem, &scene.read("h.npy"), &scene.read("hT.npy"))
}

fn npy_round_trip<T: Sample + Stored + npyz::Deserialize>(
    device: &TestDevice,
) -> Result<(), String> {
    let problem = small::<T>();
    agrees(device, &problem, &scan_npy(device, &problem, ""))
}

#[test]
fn npy_f32() {
    on_every_device(npy_round_trip::<f32>);
}

#[test]
fn npy_f16() {
    on_every_device(npy_round_trip::<f16>);
}

/// The least there is to type: no device, no states.
#[test]
fn the_shortest_command() {
    let mut problem = small::<f32>();
    problem.h0 = None;
    let scene = Scene::with(&npy_inputs(&problem));
    let ran = scene.run("scan --a a.npy --b b.npy --out h.npy").ok();
    let device = ferroseq_tests::devices().last().unwrap();
    let h = read_npy(&scene.read("h.npy"), &shape_of(&problem));
    let expected = problem.run(&device.device).unwrap();
    same_bits("h", &h, &expected.h).unwrap();
    assert_eq!(scene.names(), ["a.npy", "b.npy", "h.npy"]);
    // Which device `auto` took is said somewhere.
    let said = format!("{}{}", ran.stdout, ran.stderr);
    let name = if ferroseq::Device::cuda(0).is_ok() {
        "cuda:0"
    } else {
        "cpu"
    };
    assert!(said.contains(name), "{said}");
}

mod safetensors {
    use super::*;

    every_type! { round_trip packed }

    fn round_trip<T: Sample + Stored>(device: &TestDevice) -> Result<(), String> {
        check(device, &small::<T>())
    }

    fn packed<T: Sample + Stored>(device: &TestDevice) -> Result<(), String> {
        let mut case = Case::packed(&[3, 0, 7, 5], 6, 53);
        case.initial = true;
        check(device, &case.problem::<T>())
    }

    /// Tensors in and out by their names: `a`, `b`, `h0`, `cu_seqlens`; `h`, `final_state`.
    fn check<T: Sample + Stored>(device: &TestDevice, problem: &Problem<T>) -> Result<(), String> {
        let scene = Scene::with(&[("x.safetensors", safetensors_inputs(problem))]);
        scene
            .run(&format!(
                "scan --input x.safetensors --out y.safetensors --device {}",
                device.spec
            ))
            .ok();
        let file = scene.read("y.safetensors");
        let outcome = Outcome {
            h: read_tensor(&file, "h", &shape_of(problem)),
            final_state: read_tensor(&file, "final_state", &state_shape_of(problem)),
        };
        agrees(device, problem, &outcome)
    }
}

#[test]
fn layout_and_direction() {
    on_every_device(|device| {
        for (layout, name) in [(Layout::Bld, "bld"), (Layout::Bdl, "bdl")] {
            for (reverse, flag) in [(false, ""), (true, "--reverse")] {
                let mut problem = small::<f32>();
                problem.scan = problem.scan.layout(layout).reverse(reverse);
                let outcome = scan_npy(device, &problem, &format!("--layout {name} {flag}"));
                agrees(device, &problem, &outcome)?;
            }
        }
        Ok(())
    });
}

/// Offsets from a file and lengths on the line are the same thing.
#[test]
fn packed_sequences() {
    on_every_device(|device| {
        let mut case = Case::packed(&[3, 7, 0, 5], 4, 59);
        case.initial = true;
        let problem = case.problem::<f32>();
        for option in ["--cu-seqlens offsets.npy", "--lengths 3,7,0,5"] {
            agrees(device, &problem, &scan_npy(device, &problem, option))?;
        }
        Ok(())
    });
}

#[test]
fn chunks_equal_one_call() {
    on_every_device(|device| {
        for reverse in [false, true] {
            let mut problem = small::<f32>();
            problem.scan = problem.scan.reverse(reverse);
            let flag = if reverse { "--reverse" } else { "" };
            let whole = scan_npy(device, &problem, flag);
            for chunk in [1, 10, 37, 1000] {
                let options = format!("{flag} --chunk {chunk}");
                let chunked = scan_npy(device, &problem, &options);
                same_outcome(&options, &chunked, &whole)?;
            }
        }
        Ok(())
    });
}

#[test]
fn nothing_to_scan() {
    on_every_device(|device| {
        for (batch, length, channels) in [(0, 4, 3), (2, 0, 3), (2, 4, 0)] {
            let mut case = Case::plain(batch, length, channels, 1);
            case.initial = true;
            let problem = case.problem::<f32>();
            agrees(device, &problem, &scan_npy(device, &problem, ""))?;
        }
        Ok(())
    });
}

/// Infinities and NaN come through files as they are.
#[test]
fn special_values() {
    on_every_device(|device| {
        let mut problem = small::<f32>();
        for (at, value) in [(7, f32::NAN), (58, f32::INFINITY), (190, -f32::INFINITY)] {
            problem.b[at] = value;
        }
        agrees(device, &problem, &scan_npy(device, &problem, ""))
    });
}

#[test]
fn json_on_stdout() {
    let problem = small::<f32>();
    for device in ferroseq_tests::devices() {
        let scene = Scene::with(&npy_inputs(&problem));
        let json = scene
            .run(&format!(
                "scan --a a.npy --b b.npy --out h.npy --final-state hT.npy --json --device {}",
                device.spec
            ))
            .ok()
            .json();
        assert_eq!(json["operation"], "linear_scan");
        let name = json["device"].as_str().unwrap();
        assert!(name.starts_with(device.spec), "{json}");
        assert_eq!(json["dtype"], "f32");
        assert_eq!(json["shape"], serde_json::json!([2, 37, 5]));
        assert_eq!(json["layout"], "bld");
        let outputs: Vec<&str> = json["outputs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|output| output.as_str().unwrap())
            .collect();
        assert_eq!(outputs, ["h.npy", "hT.npy"]);
        let number = |key: &str| {
            json[key]
                .as_f64()
                .unwrap_or_else(|| panic!("{key}: {json}"))
        };
        // Two reads and a write of [2, 37, 5] f32 at least; the final state on top.
        let streams = f64::from(3 * 2 * 37 * 5 * 4);
        assert!(
            (streams..=streams + 80.0).contains(&number("bytes")),
            "{json}"
        );
        assert!(number("seconds") > 0.0, "{json}");
        let rate = number("bytes") / number("seconds") / 1e9;
        assert!(
            (number("gbps") - rate).abs() <= 0.02 * rate + 1e-3,
            "{json}"
        );
    }
}

/// Files larger than a pipe or a page, on the device that `auto` takes.
#[test]
fn a_larger_file() {
    on_every_device(|device| {
        let problem = Case::plain(3, 700, 64, 61).problem::<f32>();
        agrees(device, &problem, &scan_npy(device, &problem, ""))
    });
}

/// An output that is there is replaced; nothing else appears.
#[test]
fn an_old_output_is_replaced() {
    let problem = small::<f32>();
    let mut files = npy_inputs(&problem);
    files.push(("h.npy", b"old".to_vec()));
    let scene = Scene::with(&files);
    let names = scene.names();
    scene
        .run("scan --a a.npy --b b.npy --h0 h0.npy --out h.npy --device cpu")
        .ok();
    let h: Vec<f32> = read_npy(&scene.read("h.npy"), &shape_of(&problem));
    assert!(h.iter().all(|value| value.is_finite()));
    assert_eq!(scene.names(), names);
}

/// Versions 2 and 3 of the format differ in the header's length field.
#[test]
fn npy_version_2() {
    let problem = small::<f32>();
    let mut files = npy_inputs(&problem);
    let one = npy(&shape_of(&problem), &problem.a);
    let header = usize::from(u16::from_le_bytes([one[8], one[9]]));
    let mut two = b"\x93NUMPY\x02\x00".to_vec();
    two.extend((header as u32).to_le_bytes());
    two.extend(&one[10..]);
    files[0].1 = two;
    let scene = Scene::with(&files);
    scene
        .run("scan --a a.npy --b b.npy --out h.npy --device cpu")
        .ok();
    let expected = Problem {
        h0: None,
        ..problem.clone()
    }
    .run(&ferroseq::Device::cpu())
    .unwrap();
    let h: Vec<f32> = read_npy(&scene.read("h.npy"), &shape_of(&problem));
    same_bits("h", &h, &expected.h).unwrap();
}

/// bf16 has no name in numpy; such data comes in `.safetensors` and must not be half-read.
#[test]
fn bf16_states_stay_f32() {
    let problem = small::<bf16>();
    let scene = Scene::with(&[("x.safetensors", safetensors_inputs(&problem))]);
    scene
        .run("scan --input x.safetensors --out y.safetensors --device cpu")
        .ok();
    let file = scene.read("y.safetensors");
    let last: Vec<f32> = read_tensor(&file, "final_state", &state_shape_of(&problem));
    let expected = problem.run(&ferroseq::Device::cpu()).unwrap();
    same_bits("final_state", &last, &expected.final_state).unwrap();
}
