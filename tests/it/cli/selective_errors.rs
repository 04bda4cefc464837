//! What a user can get wrong with `selective-scan`, `layer` and `step`: an error that names
//! the tensor, its file and what was expected; no output, no temporary, no panic.

use super::files::{Tensor, safetensors, tensor};
use super::scene::Scene;

fn ones(name: &'static str, shape: &[usize]) -> Tensor {
    tensor(name, shape, &vec![1f32; shape.iter().product()])
}

/// Right inputs of a scan with B, L, D, N = 2, 3, 4, 5, but for these.
fn scan_with(changed: Vec<Tensor>) -> Scene {
    let right = [
        ones("x", &[2, 3, 4]),
        ones("delta", &[2, 3, 4]),
        ones("A_log", &[4, 5]),
        ones("B", &[2, 3, 5]),
        ones("C", &[2, 3, 5]),
    ];
    let kept = right.into_iter().filter(|tensor| {
        let mut names = changed.iter().map(Tensor::name);
        !names.any(|name| name == tensor.name())
    });
    let mut tensors: Vec<Tensor> = kept.collect();
    tensors.extend(changed);
    Scene::with(&[("x.safetensors", safetensors(&tensors))])
}

const SCAN: &str = "selective-scan --input x.safetensors --out y.npy --device cpu";

#[test]
fn the_right_inputs_succeed() {
    scan_with(vec![]).run(SCAN).ok();
}

#[test]
fn shapes() {
    for (name, shape, parts) in [
        ("x", &[2, 12][..], &["`x`", "[2, 12]", "[B, L, D]"][..]),
        ("delta", &[2, 3, 5], &["`delta`", "[2, 3, 5]", "[2, 3, 4]"]),
        ("A_log", &[20], &["`A_log`", "[20]", "[D, N]"]),
        ("A_log", &[5, 4], &["`A_log`", "[5, 4]", "[4, 4]"]),
        ("B", &[2, 3, 4], &["`B`", "[2, 3, 4]", "[2, 3, 5]"]),
        ("B", &[2, 30], &["`B`", "[2, 30]", "[B, L, N]"]),
        ("B", &[2, 3, 3, 5], &["`C`", "[2, 3, 5]", "[2, 3, 3, 5]"]),
        ("C", &[2, 5, 3], &["`C`", "[2, 5, 3]", "[2, 3, 5]"]),
        ("D_skip", &[5], &["`D_skip`", "[5]", "[4]"]),
        ("delta_bias", &[1], &["`delta_bias`", "[1]", "[4]"]),
        ("z", &[2, 4, 3], &["`z`", "[2, 4, 3]", "[2, 3, 4]"]),
        ("h0", &[2, 5, 4], &["`h0`", "[2, 5, 4]", "[2, 4, 5]"]),
    ] {
        scan_with(vec![ones(name, shape)]).fails(SCAN, parts);
    }
}

#[test]
fn groups_and_state_sizes() {
    let groups = vec![ones("B", &[2, 3, 3, 5]), ones("C", &[2, 3, 3, 5])];
    scan_with(groups).fails(SCAN, &["`G` is 3", "divides the 4 channels"]);
    let wide = vec![
        ones("A_log", &[4, 257]),
        ones("B", &[2, 3, 257]),
        ones("C", &[2, 3, 257]),
    ];
    scan_with(wide).fails(SCAN, &["`N` is 257", "from 1 to 256"]);
    let none = vec![
        ones("A_log", &[4, 0]),
        ones("B", &[2, 3, 0]),
        ones("C", &[2, 3, 0]),
    ];
    scan_with(none).fails(SCAN, &["`N` is 0", "from 1 to 256"]);
}

#[test]
fn types() {
    let wrong = tensor("x", &[2, 3, 4], &[1i64; 24]);
    scan_with(vec![wrong]).fails(SCAN, &["`x`", "i64", "f32 or f16 or bf16"]);
    let other = tensor("C", &[2, 3, 5], &[half::bf16::ONE; 30]);
    scan_with(vec![other]).fails(SCAN, &["`C`", "bf16", "f32"]);
    let state = tensor("h0", &[2, 4, 5], &[half::bf16::ONE; 40]);
    scan_with(vec![state]).fails(SCAN, &["`h0`", "bf16", "f32"]);
}

#[test]
fn tensors_that_are_not_there() {
    let scene = Scene::with(&[("x.safetensors", safetensors(&[ones("x", &[2, 3, 4])]))]);
    scene.fails(
        SCAN,
        &["no tensor `delta`", "x.safetensors has none", "--tensor"],
    );
    scene.fails(
        "selective-scan --tensor x=x.safetensors#y --out y.npy --device cpu",
        &["no tensor `y`", "only x"],
    );
    scene.fails(
        "selective-scan --tensor x=nowhere.npy --out y.npy --device cpu",
        &["nowhere.npy"],
    );
    scene.fails(
        "selective-scan --out y.npy",
        &["--input", "--config", "--tensor"],
    );
    let both = scan_with(vec![ones("A", &[4, 5])]);
    both.fails(SCAN, &["both `A_log` and `A`"]);
}

#[test]
fn keys_and_files_that_make_no_sense() {
    let scene = scan_with(vec![]);
    scene.fails(
        &format!("{SCAN} --tensor gate=z.npy"),
        &["`gate` is none of", "z"],
    );
    scene.fails(&format!("{SCAN} --tensor z"), &["KEY=FILE"]);
    scene.fails(
        &format!("{SCAN} --tensor z=z.npz"),
        &["z.npz", "FILE.safetensors#NAME"],
    );
    scene.fails(&format!("{SCAN} --tensor z=z.npy#z"), &["z.npy#z"]);
    scene.fails(&format!("{SCAN} --tensor W_B=b.npy"), &["`W_B` is none of"]);
}

#[test]
fn configs_that_make_no_sense() {
    let scene = scan_with(vec![]);
    for (text, parts) in [
        ("", &["c.json is not a config"][..]),
        ("[]", &["c.json is not a config", "map"]),
        ("{\"x\": 3}", &["c.json is not a config", "string"]),
        (
            "{\"x\": \"x.txt\"}",
            &["c.json is not a config", "x.txt", "FILE.npy"],
        ),
        ("{\"gate\": \"x.npy\"}", &["--config: `gate` is none of"]),
    ] {
        scene.write("c.json", text.as_bytes());
        scene.fails(&format!("{SCAN} --config c.json"), parts);
    }
    scene.fails(
        &format!("{SCAN} --config nowhere.json"),
        &["cannot read nowhere.json"],
    );
}

#[test]
fn outputs_that_are_inputs() {
    let scene = scan_with(vec![]);
    scene.fails(
        "selective-scan --input x.safetensors --out x.safetensors",
        &["--out x.safetensors", "--input x.safetensors", "same file"],
    );
    scene.fails(
        &format!("{SCAN} --tensor h0=h0.npy --final-state h0.npy"),
        &["--final-state h0.npy", "--tensor h0.npy", "same file"],
    );
    scene.fails(
        &format!("{SCAN} --final-state y.npy"),
        &["y.npy", "same file"],
    );
    scene.fails(
        "selective-scan --input x.safetensors --out y.txt",
        &["y.txt", ".npy"],
    );
}

#[test]
fn packed_sequences_that_do_not_fit() {
    let scene = scan_with(vec![]);
    scene.fails(
        &format!("{SCAN} --lengths 1,2"),
        &["`batch` is 2", "expected 1"],
    );
    let packed = vec![
        ones("x", &[1, 3, 4]),
        ones("delta", &[1, 3, 4]),
        ones("B", &[1, 3, 5]),
        ones("C", &[1, 3, 5]),
    ];
    let scene = scan_with(packed);
    scene.fails(
        &format!("{SCAN} --lengths 1,1"),
        &["2 at the end", "expected 3"],
    );
    scene.fails(&format!("{SCAN} --lengths 1,-1"), &["-1"]);
    scene.run(&format!("{SCAN} --lengths 1,2")).ok();
}

#[test]
fn layers() {
    let with = |w_delta: &[usize], w_b: &[usize], w_c: &[usize]| {
        let tensors = [
            ones("x", &[2, 3, 4]),
            ones("A_log", &[4, 5]),
            ones("W_delta", w_delta),
            ones("W_B", w_b),
            ones("W_C", w_c),
        ];
        Scene::with(&[("x.safetensors", safetensors(&tensors))])
    };
    const LAYER: &str = "layer --input x.safetensors --out y.npy --device cpu";
    with(&[4, 4], &[10, 4], &[10, 4]).run(LAYER).ok();
    with(&[4, 5], &[5, 4], &[5, 4]).fails(LAYER, &["`W_delta`", "[4, 5]", "[4, 4]"]);
    with(&[4, 4], &[7, 4], &[7, 4]).fails(LAYER, &["`W_B`", "[7, 4]", "[5, 4]"]);
    with(&[4, 4], &[3, 4], &[3, 4]).fails(LAYER, &["`W_B`", "[3, 4]", "[5, 4]"]);
    with(&[4, 4], &[5, 4], &[10, 4]).fails(LAYER, &["`W_C`", "[10, 4]", "[5, 4]"]);
    with(&[4, 4], &[15, 4], &[15, 4]).fails(LAYER, &["`G` is 3", "4 channels"]);
}

#[test]
fn steps() {
    let with = |state: &[usize], b: &[usize]| {
        let tensors = [
            ones("x", &[2, 4]),
            ones("delta", &[2, 4]),
            ones("A_log", &[4, 5]),
            ones("B", b),
            ones("C", b),
            ones("state", state),
        ];
        Scene::with(&[("x.safetensors", safetensors(&tensors))])
    };
    const STEP: &str = "step --input x.safetensors --out y.npy --device cpu";
    with(&[2, 4, 5], &[2, 5]).run(STEP).ok();
    with(&[2, 5, 4], &[2, 5]).fails(STEP, &["`state`", "[2, 5, 4]", "[2, 4, 5]"]);
    with(&[2, 4, 5], &[2, 4]).fails(STEP, &["`B`", "[2, 4]", "[2, 5]"]);
    with(&[2, 4, 5], &[2, 3, 5]).fails(STEP, &["`G` is 3", "4 channels"]);
}

#[test]
fn a_device_that_is_not_there() {
    let scene = scan_with(vec![]);
    scene.fails(
        "selective-scan --input x.safetensors --out y.npy --device gpu",
        &["gpu", "cuda"],
    );
}
