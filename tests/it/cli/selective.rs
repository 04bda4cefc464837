//! `ferroseq selective-scan`, `layer` and `step`, from files to files, compared with the
//! oracle and with the library.

use super::files::{Stored, Tensor, read_npy, read_tensor, safetensors, selective_inputs, tensor};
use super::scene::Scene;
use crate::selective_scan::{LAYER, SCAN};
use crate::{every_type, on_devices};
use ferroseq::Device;
use ferroseq::ops::{Layout, SelectiveScanLayer, SelectiveScanLayerArgs, StateMatrix};
use ferroseq_tests::compare::{same_bits, selective_agrees};
use ferroseq_tests::{Sample, SelectiveCase, SelectiveOutcome, SelectiveProblem, TestDevice};
use half::bf16;

every_type! { on crate::selective_scan::SCAN: safetensors_to_safetensors }

/// B, L, D, N = 2, 9, 6, 4 with every option.
fn small<T: Sample>() -> SelectiveProblem<T> {
    SelectiveCase::full([2, 9, 6, 4], 71).problem()
}

fn outcome<T: Sample + Stored>(
    file: &[u8],
    problem: &SelectiveProblem<T>,
    state: &str,
) -> SelectiveOutcome<T> {
    let scan = problem.scan;
    let shape = match scan.layout {
        Layout::Bld => [scan.batch, scan.length, scan.channels],
        Layout::Bdl => [scan.batch, scan.channels, scan.length],
    };
    let states = [problem.sequences(), scan.channels, scan.state];
    SelectiveOutcome {
        y: read_tensor(file, "y", &shape),
        final_state: read_tensor(file, state, &states),
    }
}

fn safetensors_to_safetensors<T: Sample + Stored>(device: &TestDevice) -> Result<(), String> {
    let mut groups = small::<T>();
    groups.scan.layout = Layout::Bdl;
    let mut case = SelectiveCase::full([2, 9, 6, 4], 72);
    case.scan = case.scan.groups(3).layout(Layout::Bdl).softplus(false);
    case.log = false;
    let packed = SelectiveCase::packed(&[3, 0, 7], 5, 3, 73);
    for problem in [small::<T>(), groups, case.problem(), packed.problem()] {
        let scene = Scene::with(&[("x.safetensors", safetensors(&selective_inputs(&problem)))]);
        let layout = match problem.scan.layout {
            Layout::Bld => "bld",
            Layout::Bdl => "bdl",
        };
        let softplus = if problem.scan.softplus {
            ""
        } else {
            "--no-softplus"
        };
        let spec = device.spec;
        scene
            .run(&format!(
                "selective-scan --input x.safetensors --out y.safetensors --device {spec} \
                 --layout {layout} {softplus}"
            ))
            .ok();
        let outcome = outcome(&scene.read("y.safetensors"), &problem, "final_state");
        selective_agrees(device, &problem, &outcome)?;
    }
    Ok(())
}

/// Each tensor in its own file: named one by one, and by a config in another folder. The
/// command line wins over the config, the config over the file of all.
#[test]
fn npy_files_and_a_config() {
    on_devices(SCAN, |device| {
        let problem = small::<f32>();
        let scene = Scene::new();
        std::fs::create_dir(scene.path("data")).unwrap();
        let mut options = String::new();
        let mut config = serde_json::Map::new();
        for tensor in selective_inputs(&problem) {
            let (name, file) = tensor.npy();
            scene.write(&format!("data/{name}.npy"), &file);
            options += &format!(" --tensor {name}=data/{name}.npy");
            config.insert(name.clone(), format!("{name}.npy").into());
        }
        scene.write("data/config.json", &serde_json::to_vec(&config).unwrap());
        // Wrong everywhere: each tensor is taken from elsewhere.
        let wrong = tensor("x", &[1], &[f32::NAN]);
        scene.write("wrong.safetensors", &safetensors(&[wrong]));
        config["C"] = "nowhere.npy".into();
        scene.write("data/partly.json", &serde_json::to_vec(&config).unwrap());
        for inputs in [
            options.as_str(),
            "--config data/config.json",
            "--input wrong.safetensors --config data/partly.json --tensor C=data/C.npy",
        ] {
            scene
                .run(&format!(
                    "selective-scan {inputs} --out y.npy --final-state hT.npy --device {}",
                    device.spec
                ))
                .ok();
            let outcome = SelectiveOutcome {
                y: read_npy(&scene.read("y.npy"), &[2, 9, 6]),
                final_state: read_npy(&scene.read("hT.npy"), &[2, 6, 4]),
            };
            selective_agrees(device, &problem, &outcome)?;
        }
        Ok(())
    });
}

/// A tensor under any name in a model's file, its parameters bf16, packed by lengths.
#[test]
fn tensors_by_other_names() {
    on_devices(SCAN, |device| {
        let mut case = SelectiveCase::packed(&[3, 0, 7], 5, 3, 74);
        case.skip = true;
        let mut problem = case.problem::<bf16>();
        let exact = |values: &mut Vec<f32>| {
            let narrow: Vec<bf16> = values.iter().map(|&v| bf16::from_f32(v)).collect();
            *values = narrow.iter().map(|v| v.to_f32()).collect();
            narrow
        };
        let a = exact(&mut problem.a);
        let skip = exact(problem.d_skip.as_mut().unwrap());
        let model = [
            tensor("layers.0.A_log", &[5, 3], &a),
            tensor("layers.0.D", &[5], &skip),
        ];
        let own = |tensor: &Tensor| !["A_log", "D_skip", "cu_seqlens"].contains(&tensor.name());
        let activations: Vec<Tensor> = selective_inputs(&problem).into_iter().filter(own).collect();
        let scene = Scene::with(&[
            ("model.safetensors", safetensors(&model)),
            ("x.safetensors", safetensors(&activations)),
        ]);
        scene
            .run(&format!(
                "selective-scan --input x.safetensors --lengths 3,0,7 \
                 --tensor A_log=model.safetensors#layers.0.A_log \
                 --tensor D_skip=model.safetensors#layers.0.D \
                 --out y.safetensors --device {}",
                device.spec
            ))
            .ok();
        let outcome = outcome(&scene.read("y.safetensors"), &problem, "final_state");
        selective_agrees(device, &problem, &outcome)
    });
}

#[test]
fn json_on_stdout() {
    let problem = small::<f32>();
    on_devices(SCAN, |device| {
        let scene = Scene::with(&[("x.safetensors", safetensors(&selective_inputs(&problem)))]);
        let json = scene
            .run(&format!(
                "selective-scan --input x.safetensors --out y.npy --json --device {}",
                device.spec
            ))
            .ok()
            .json();
        assert_eq!(json["operation"], "selective_scan");
        assert!(json["device"].as_str().unwrap().starts_with(device.spec));
        assert_eq!(json["dtype"], "f32");
        assert_eq!(json["shape"], serde_json::json!([2, 9, 6]));
        assert_eq!(json["state"], 4);
        assert_eq!(json["outputs"], serde_json::json!(["y.npy"]));
        // x, delta, z and y; B and C.
        assert_eq!(json["bytes"], 4 * (4 * 2 * 9 * 6 + 2 * 2 * 9 * 4));
        assert!(json["seconds"].as_f64().unwrap() > 0.0, "{json}");
        Ok(())
    });
}

/// Three steps, the state from file to file, are a scan over three tokens.
#[test]
fn steps_from_file_to_file() {
    on_devices(SCAN, |device| {
        let mut case = SelectiveCase::full([2, 3, 6, 4], 75);
        case.scan = case.scan.groups(2);
        let problem = case.problem::<f32>();
        let scene = Scene::new();
        let h0 = problem.h0.clone().unwrap();
        scene.write("h0.npy", &tensor("h0", &[2, 6, 4], &h0).npy().1);
        let mut found = SelectiveOutcome {
            y: vec![f32::NAN; problem.x.len()],
            final_state: Vec::new(),
        };
        for t in 0..3 {
            let of_token = |values: &[f32], width: usize| -> Vec<f32> {
                let rows = values.chunks_exact(width).skip(t).step_by(3);
                rows.flatten().copied().collect()
            };
            let row = |name, values: &[f32]| tensor(name, &[2, 6], &of_token(values, 6));
            let matrix = |name, values: &[f32]| tensor(name, &[2, 2, 4], &of_token(values, 8));
            let token = [
                row("x", &problem.x),
                row("delta", &problem.delta),
                row("z", problem.z.as_ref().unwrap()),
                matrix("B", &problem.b),
                matrix("C", &problem.c),
                tensor("A_log", &[6, 4], &problem.a),
                tensor("D_skip", &[6], problem.d_skip.as_ref().unwrap()),
                tensor("delta_bias", &[6], problem.delta_bias.as_ref().unwrap()),
            ];
            scene.write("token.safetensors", &safetensors(&token));
            scene
                .run(&format!(
                    "step --input token.safetensors --tensor state=h{t}.npy --out y.npy \
                     --final-state h{}.npy --device {}",
                    t + 1,
                    device.spec
                ))
                .ok();
            let y: Vec<f32> = read_npy(&scene.read("y.npy"), &[2, 6]);
            for (row, y) in found
                .y
                .chunks_exact_mut(6)
                .skip(t)
                .step_by(3)
                .zip(y.chunks(6))
            {
                row.copy_from_slice(y);
            }
        }
        found.final_state = read_npy(&scene.read("h3.npy"), &[2, 6, 4]);
        selective_agrees(device, &problem, &found)
    });
}

/// Without a state, a step starts from zeros; `y` and the new state come in one file.
#[test]
fn a_first_step() {
    on_devices(SCAN, |device| {
        let mut case = SelectiveCase::full([2, 1, 6, 4], 76);
        case.initial = false;
        let problem = case.problem::<f32>();
        let flat = |tensor: Tensor| -> Tensor {
            match tensor.name() {
                "x" => self::tensor("x", &[2, 6], &problem.x),
                "delta" => self::tensor("delta", &[2, 6], &problem.delta),
                "z" => self::tensor("z", &[2, 6], problem.z.as_ref().unwrap()),
                "B" => self::tensor("B", &[2, 4], &problem.b),
                "C" => self::tensor("C", &[2, 4], &problem.c),
                _ => tensor,
            }
        };
        let tensors: Vec<Tensor> = selective_inputs(&problem).into_iter().map(flat).collect();
        let scene = Scene::with(&[("token.safetensors", safetensors(&tensors))]);
        let command = "step --input token.safetensors --out next.safetensors --device";
        scene.run(&format!("{command} {}", device.spec)).ok();
        let file = scene.read("next.safetensors");
        let found = SelectiveOutcome {
            y: read_tensor(&file, "y", &[2, 6]),
            final_state: read_tensor(&file, "state", &[2, 6, 4]),
        };
        selective_agrees(device, &problem, &found)
    });
}

/// The layer through files is the layer of the library.
#[test]
fn layer() {
    on_devices(LAYER, |device| {
        let problem = small::<f32>();
        let weight = |rows: usize, seed: u64| -> Vec<f32> {
            let values: Vec<f32> = SelectiveCase::plain([1, rows, 6, 1], seed).problem().x;
            values.iter().map(|v| v * 0.4).collect()
        };
        let (w_delta, w_b, w_c) = (weight(6, 1), weight(8, 2), weight(8, 3));
        // Two groups.
        let mut tensors: Vec<Tensor> = selective_inputs(&problem)
            .into_iter()
            .filter(|tensor| !["delta", "B", "C"].contains(&tensor.name()))
            .collect();
        tensors.push(tensor("W_delta", &[6, 6], &w_delta));
        tensors.push(tensor("other", &[8, 6], &w_b).renamed("W_B"));
        tensors.push(tensor("W_C", &[8, 6], &w_c));
        let scene = Scene::with(&[("x.safetensors", safetensors(&tensors))]);
        let command = "layer --input x.safetensors --out y.safetensors --json --device";
        let json = scene.run(&format!("{command} {}", device.spec)).ok().json();
        assert_eq!(json["operation"], "selective_scan_layer");
        let found = outcome(&scene.read("y.safetensors"), &problem, "final_state");
        let expected = run_layer(&device.device, &problem, [&w_delta, &w_b, &w_c])
            .map_err(|error| error.to_string())?;
        same_bits("y", &found.y, &expected.y)?;
        same_bits("final_state", &found.final_state, &expected.final_state)
    });
}

fn run_layer(
    device: &Device,
    problem: &SelectiveProblem<f32>,
    weights: [&Vec<f32>; 3],
) -> ferroseq::Result<SelectiveOutcome<f32>> {
    let up = |values: &Vec<f32>| device.upload(values);
    let optional = |values: &Option<Vec<f32>>| values.as_ref().map(up).transpose();
    let [w_delta, w_b, w_c] = weights.map(up);
    let (w_delta, w_b, w_c) = (w_delta?, w_b?, w_c?);
    let (x, a) = (up(&problem.x)?, up(&problem.a)?);
    let (d_skip, delta_bias) = (optional(&problem.d_skip)?, optional(&problem.delta_bias)?);
    let (z, h0) = (optional(&problem.z)?, optional(&problem.h0)?);
    let mut y = device.alloc(problem.x.len())?;
    let mut last = device.alloc(problem.states())?;
    SelectiveScanLayer::new(2, 9, 6, 4).groups(2).run_with(
        device,
        SelectiveScanLayerArgs {
            d_skip: d_skip.as_ref(),
            delta_bias: delta_bias.as_ref(),
            z: z.as_ref(),
            h0: h0.as_ref(),
            final_state: Some(&mut last),
            ..SelectiveScanLayerArgs::new(&x, [&w_delta, &w_b, &w_c], StateMatrix::Log(&a), &mut y)
        },
    )?;
    Ok(SelectiveOutcome {
        y: y.to_vec()?,
        final_state: last.to_vec()?,
    })
}
