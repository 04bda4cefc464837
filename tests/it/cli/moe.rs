//! `ferroseq route`, `dispatch` and `combine`, from files to files, on every device.

use super::files::{Stored, npy, npy_bytes, read_npy, read_tensor, safetensors, tensor};
use super::scene::Scene as Folder;
use crate::moe::same;
use crate::on_every_device;
use ferroseq::ops::Route;
use ferroseq_tests::devices;
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::moe::{Choice, Scene};
use ferroseq_tests::oracle::moe::{combine, dispatch};
use half::{bf16, f16};

const TOKENS: usize = 23;
const TOP_K: usize = 2;
const EXPERTS: usize = 5;
const WIDTH: usize = 7;

fn scene() -> Scene {
    let op = Route::new(TOKENS, TOP_K, EXPERTS)
        .capacity(Some(9))
        .alignment(4);
    Scene::new(op, Choice::Random, 1)
}

/// The scene's ids, and the rest of its routing, as `.npy` files.
fn folder(scene: &Scene) -> Folder {
    Folder::with(&[
        ("ids.npy", npy(&[TOKENS, TOP_K], &scene.ids)),
        ("slots.npy", npy(&[TOKENS, TOP_K], &scene.routed.slot_idx)),
        (
            "offsets.npy",
            npy(&[EXPERTS + 1], &scene.routed.expert_offsets),
        ),
    ])
}

const ROUTING: &str = "--expert-ids ids.npy --slot-idx slots.npy --expert-offsets offsets.npy";

#[test]
fn route_to_one_file_and_to_three() {
    on_every_device(|device| {
        let scene = scene();
        let folder = folder(&scene);
        folder
            .run(&format!(
                "route --expert-ids ids.npy --experts 5 --capacity 9 --align 4 \
                 --out plan.safetensors --expert-offsets o.npy --slot-idx s.npy \
                 --source-of-row r.npy --device {}",
                device.spec
            ))
            .ok();
        let routed = &scene.routed;
        let rows = scene.rows();
        let plan = folder.read("plan.safetensors");
        for (name, file, shape, expected) in [
            (
                "expert_offsets",
                "o.npy",
                vec![EXPERTS + 1],
                &routed.expert_offsets,
            ),
            ("slot_idx", "s.npy", vec![TOKENS, TOP_K], &routed.slot_idx),
            ("source_of_row", "r.npy", vec![rows], &routed.source_of_row),
        ] {
            same(name, &read_tensor::<i32>(&plan, name, &shape), expected)?;
            same(file, &read_npy::<i32>(&folder.read(file), &shape), expected)?;
        }
        Ok(())
    });
}

/// Ids of 32 bits, one to a token, in a shape without K, under another name.
#[test]
fn route_takes_what_routers_write() {
    on_every_device(|device| {
        let scene = Scene::of(Route::new(5, 1, 4), vec![0, -1, 1, 4, 2]);
        let ids = safetensors(&[tensor("topk", &[5], &scene.narrow_ids())]);
        let folder = Folder::with(&[("x.safetensors", ids)]);
        folder
            .run(&format!(
                "route --input x.safetensors --name expert_ids=topk --name slot_idx=slot \
                 --experts 4 --invalid drop --out plan.safetensors --device {}",
                device.spec
            ))
            .ok();
        let plan = folder.read("plan.safetensors");
        let slots = read_tensor::<i32>(&plan, "slot", &[5]);
        same("slot_idx", &slots, &[0, -1, 0, -1, 0])?;
        let rows = read_tensor::<i32>(&plan, "source_of_row", &[3]);
        same("source_of_row", &rows, &[0, 2, 4])
    });
}

fn dispatches<T>(values: &[T], file: &str, shape: &[usize]) -> Vec<u8>
where
    T: Stored + PartialEq + std::fmt::Debug + Default,
{
    let scene = scene();
    let mut last = Vec::new();
    for device in devices() {
        let folder = folder(&scene);
        let contents = match file {
            "x.npy" => npy(&[TOKENS, WIDTH], values),
            _ => safetensors(&[tensor("hidden", &[TOKENS, WIDTH], values)]),
        };
        folder.write(file, &contents);
        let (hidden, out) = match file {
            "x.npy" => ("--hidden x.npy", "packed.npy"),
            _ => ("--input x.safetensors", "packed.safetensors"),
        };
        let spec = device.spec;
        folder
            .run(&format!(
                "dispatch {hidden} {ROUTING} --out {out} --device {spec}"
            ))
            .ok();
        let rows = scene.rows();
        assert_eq!(shape, [rows, WIDTH]);
        let expected = dispatch(
            values,
            T::default(),
            (rows, WIDTH),
            TOP_K,
            &scene.routed.row_idx,
        );
        let found = folder.read(out);
        if file == "x.npy" {
            let start = found.len() - expected.len() * size_of::<T>();
            assert_eq!(&found[start..], bytemuck::cast_slice::<T, u8>(&expected));
        } else {
            let found: Vec<T> = read_tensor(&found, "packed", shape);
            same("packed", &found, &expected).unwrap();
        }
        last = found;
    }
    last
}

#[test]
fn dispatch_every_type() {
    let shape = [scene().rows(), WIDTH];
    let values: Vec<f32> = Inputs::new(2).values(TOKENS * WIDTH);
    let bytes: Vec<u8> = (0..TOKENS * WIDTH).map(|at| at as u8).collect();
    let found = dispatches(&values, "x.npy", &shape);
    let _: Vec<f32> = read_npy(&found, &shape);
    let found = dispatches(&bytes, "x.npy", &shape);
    let _: Vec<u8> = read_npy(&found, &shape);
    let narrow: Vec<f16> = Inputs::new(2).values(TOKENS * WIDTH);
    dispatches(&narrow, "x.npy", &shape);
    let narrow: Vec<bf16> = Inputs::new(2).values(TOKENS * WIDTH);
    dispatches(&narrow, "x.safetensors", &shape);
}

/// Route, dispatch and combine, each with what the one before wrote: the tokens come back.
#[test]
fn there_and_back() {
    on_every_device(|device| {
        let ids: Vec<i64> = (0..TOKENS).map(|token| (token * 3 % 5) as i64).collect();
        let x: Vec<f32> = Inputs::new(3).values(TOKENS * WIDTH);
        let folder = Folder::with(&[
            ("ids.npy", npy(&[TOKENS], &ids)),
            ("x.npy", npy(&[TOKENS, WIDTH], &x)),
        ]);
        for command in [
            "route --expert-ids ids.npy --experts 5 --align 8 --out plan.safetensors",
            "dispatch --hidden x.npy --expert-ids ids.npy --input plan.safetensors \
             --out y.safetensors",
            "combine --packed z.npy --expert-ids ids.npy --input plan.safetensors --out back.npy",
        ] {
            if command.starts_with("combine") {
                let file = folder.read("y.safetensors");
                // Each expert has five tokens at most, so each has eight rows.
                let packed: Vec<f32> = read_tensor(&file, "packed", &[40, WIDTH]);
                folder.write("z.npy", &npy(&[40, WIDTH], &packed));
            }
            folder
                .run(&format!("{command} --device {}", device.spec))
                .ok();
        }
        let back: Vec<f32> = read_npy(&folder.read("back.npy"), &[TOKENS, WIDTH]);
        same("back", &back, &x)
    });
}

#[test]
fn combine_with_weights() {
    on_every_device(|device| {
        let scene = scene();
        let folder = folder(&scene);
        let packed: Vec<f32> = Inputs::new(4).values(scene.rows() * WIDTH);
        let weights: Vec<f32> = Inputs::new(5).values(TOKENS * TOP_K);
        folder.write("y.npy", &npy(&[scene.rows(), WIDTH], &packed));
        folder.write("w.npy", &npy(&[TOKENS, TOP_K], &weights));
        for (option, weights) in [("", None), ("--weights w.npy", Some(weights.as_slice()))] {
            let spec = device.spec;
            folder
                .run(&format!(
                    "combine --packed y.npy {option} {ROUTING} --out out.npy --device {spec}"
                ))
                .ok();
            let out: Vec<f32> = read_npy(&folder.read("out.npy"), &[TOKENS, WIDTH]);
            let expected = combine(&packed, WIDTH, TOP_K, &scene.routed.row_idx, weights);
            let expected: Vec<f32> = expected.iter().map(|value| value.sequential).collect();
            same("out", &out, &expected)?;
        }
        Ok(())
    });
}

#[test]
fn json_on_stdout() {
    on_every_device(|device| {
        let scene = scene();
        let folder = folder(&scene);
        let rows = scene.rows();
        let dropped = scene.routed.slot_idx.iter().filter(|s| **s == -1).count();
        folder.write("x.npy", &npy(&[TOKENS, WIDTH], &[1f32; TOKENS * WIDTH]));
        folder.write("y.npy", &npy(&[rows, WIDTH], &vec![1f32; rows * WIDTH]));
        let kept = TOKENS * TOP_K - dropped;
        for (command, name, dtype, bytes) in [
            (
                "route --expert-ids ids.npy --experts 5 --capacity 9 --align 4 \
                 --source-of-row out.npy"
                    .to_owned(),
                "route",
                "i64",
                TOKENS * TOP_K * 12 + (EXPERTS + 1 + rows) * 4,
            ),
            (
                format!("dispatch --hidden x.npy {ROUTING} --out out.npy"),
                "dispatch",
                "f32",
                (TOKENS + rows) * WIDTH * 4,
            ),
            (
                format!("combine --packed y.npy {ROUTING} --out out.npy"),
                "combine",
                "f32",
                (kept + TOKENS) * WIDTH * 4,
            ),
        ] {
            let run = format!("{command} --json --device {}", device.spec);
            let json = folder.run(&run).ok().json();
            assert_eq!(json["operation"], name);
            assert_eq!(json["dtype"], dtype);
            let sizes = ["tokens", "top_k", "experts", "rows", "dropped", "bytes"];
            let found = sizes.map(|key| json[key].as_u64().unwrap() as usize);
            let expected = [TOKENS, TOP_K, EXPERTS, rows, dropped, bytes];
            assert_eq!(found, expected, "{json}");
            assert_eq!(json["hidden"].is_null(), name == "route");
            assert_eq!(json["outputs"], serde_json::json!(["out.npy"]));
            assert!(json["seconds"].as_f64().unwrap() > 0.0, "{json}");
            let device_name = json["device"].as_str().unwrap();
            assert!(device_name.starts_with(device.spec), "{json}");
        }
        Ok(())
    });
}

/// What the device finds wrong: a message with the token, and no output.
#[test]
fn data_that_is_wrong() {
    for device in devices() {
        let folder = folder(&scene());
        folder.write("x.npy", &npy(&[TOKENS, WIDTH], &[1f32; TOKENS * WIDTH]));
        let spec = device.spec;
        folder.fails(
            &format!("route --expert-ids ids.npy --experts 4 --out p.safetensors --device {spec}"),
            &["route: `expert_ids` is 4 at token", "expected 0 to 3"],
        );
        let mut slots = scene().routed.slot_idx;
        slots[9] = 400;
        folder.write("slots.npy", &npy(&[TOKENS, TOP_K], &slots));
        folder.fails(
            &format!("dispatch --hidden x.npy {ROUTING} --out y.npy --device {spec}"),
            &["dispatch: `slot_idx` is 400 at token 4, k 1"],
        );
        let mut offsets = scene().routed.expert_offsets;
        offsets[3] = 1;
        folder.write("offsets.npy", &npy(&[EXPERTS + 1], &offsets));
        folder.write("y.npy", &npy(&[40, WIDTH], &[1f32; 40 * WIDTH]));
        folder.fails(
            &format!("combine --packed y.npy {ROUTING} --out out.npy --device {spec}"),
            &["combine: `expert_offsets` is 1 at position 3"],
        );
    }
}

#[test]
fn commands_that_make_no_sense() {
    let folder = folder(&scene());
    let ones = |shape: &[usize]| npy(shape, &vec![1f32; shape.iter().product()]);
    folder.write("x.npy", &ones(&[TOKENS, WIDTH]));
    folder.write("short.npy", &ones(&[TOKENS - 1, WIDTH]));
    folder.write("flat.npy", &ones(&[TOKENS]));
    folder.write("cube.npy", &npy(&[1, TOKENS, 2], &[0i64; 2 * TOKENS]));
    folder.write("wide.npy", &npy(&[EXPERTS + 1], &[1i64 << 40; EXPERTS + 1]));
    folder.write("none.npy", &npy::<i64>(&[0], &[]));
    folder.write("bytes.npy", &npy(&[40, WIDTH], &[1u8; 40 * WIDTH]));
    folder.write("double.npy", &npy_bytes("<f8", false, &[2, 2], &[0; 32]));
    for (command, parts) in [
        ("route --expert-ids ids.npy --experts 5", &["--out"][..]),
        (
            "route --experts 5 --out p.safetensors",
            &["--expert-ids", "required"],
        ),
        (
            "route --expert-ids ids.npy --out p.safetensors",
            &["--experts"],
        ),
        (
            "route --expert-ids ids.npy --experts 5 --out p.npy",
            &[".safetensors"],
        ),
        (
            "route --expert-ids ids.npy --experts 5 --slot-idx ids.npy",
            &["same file"],
        ),
        (
            "route --expert-ids ids.npy --experts 0 --out p.safetensors",
            &["`experts` is 0", "1 to 1024"],
        ),
        (
            "route --expert-ids ids.npy --experts 5 --align 0 --out p.safetensors",
            &["`alignment` is 0"],
        ),
        (
            "route --expert-ids ids.npy --experts 5 --invalid keep --out p.safetensors",
            &["keep", "error, drop"],
        ),
        (
            "route --expert-ids x.npy --experts 5 --out p.safetensors",
            &["x.npy", "f32", "i32 or i64"],
        ),
        (
            "route --expert-ids cube.npy --experts 5 --out p.safetensors",
            &["cube.npy", "[T, K]", "[1, 23, 2]"],
        ),
        (
            "route --expert-ids ids.npy --experts 5 --name a=b --out p.safetensors",
            &["`a` is none of expert_ids"],
        ),
        (
            "dispatch --hidden x.npy --expert-ids ids.npy --out y.npy",
            &["no slot_idx", "--slot-idx"],
        ),
        (
            "dispatch --hidden short.npy ROUTING --out y.npy",
            &["short.npy", "[22, 7]", "[23, 7]"],
        ),
        (
            "dispatch --hidden flat.npy ROUTING --out y.npy",
            &["flat.npy", "[T, H]"],
        ),
        (
            "dispatch --hidden double.npy ROUTING --out y.npy",
            &["double.npy"],
        ),
        (
            "dispatch --hidden x.npy ROUTING --out x.npy",
            &["same file"],
        ),
        (
            "dispatch --hidden x.npy --expert-ids ids.npy --slot-idx slots.npy \
             --expert-offsets wide.npy --out y.npy",
            &["expert_offsets is 1099511627776 at position 0"],
        ),
        (
            "dispatch --hidden x.npy --expert-ids ids.npy --slot-idx slots.npy \
             --expert-offsets none.npy --out y.npy",
            &["expert_offsets is empty", "[E + 1]"],
        ),
        (
            "combine --packed bytes.npy ROUTING --out y.npy",
            &["bytes.npy", "u8", "f32"],
        ),
        (
            "combine --packed x.npy --weights flat.npy ROUTING --out y.npy",
            &["flat.npy", "[23, 2]"],
        ),
        (
            "combine --packed x.npy ROUTING --out y.txt",
            &[".npy or .safetensors"],
        ),
        (
            "combine --packed missing.npy ROUTING --out y.npy",
            &["missing.npy"],
        ),
        (
            "dispatch --hidden x.npy ROUTING --out y.npy --device gpu",
            &["gpu", "expected auto, cpu"],
        ),
    ] {
        folder.fails(&command.replace("ROUTING", ROUTING), parts);
    }
}

#[test]
fn nothing_to_route() {
    on_every_device(|device| {
        let folder = Folder::with(&[
            ("ids.npy", npy::<i64>(&[0, 2], &[])),
            ("x.npy", npy::<f32>(&[0, 3], &[])),
        ]);
        let spec = device.spec;
        for command in [
            "route --expert-ids ids.npy --experts 3 --out p.safetensors",
            "dispatch --hidden x.npy --expert-ids ids.npy --input p.safetensors --out y.npy",
            "combine --packed y.npy --expert-ids ids.npy --input p.safetensors --out z.npy",
        ] {
            folder.run(&format!("{command} --device {spec}")).ok();
        }
        let offsets = read_tensor::<i32>(&folder.read("p.safetensors"), "expert_offsets", &[4]);
        same("expert_offsets", &offsets, &[0; 4])?;
        let _: Vec<f32> = read_npy(&folder.read("y.npy"), &[0, 3]);
        let _: Vec<f32> = read_npy(&folder.read("z.npy"), &[0, 3]);
        Ok(())
    });
}

/// The manual of each command has its examples.
#[test]
fn manuals() {
    let folder = Folder::new();
    for command in ["route", "dispatch", "combine"] {
        let text = folder.run(&format!("help {command}")).ok().stdout;
        for part in [
            "Mixture of experts",
            "Examples:",
            "JSON (--json)",
            "--device",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(100), "{longest:?}");
    }
}
