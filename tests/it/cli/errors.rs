//! Everything a user can get wrong: an error that names the file or the argument and what
//! is wrong with it, exit code 1 or 2, no panic, no output and no temporary left.

use super::files::{npy, npy_bytes, npy_inputs, safetensors, tensor};
use super::scene::Scene;
use ferroseq_tests::Case;

/// [B, L, D] = [2, 3, 4].
const SHAPE: [usize; 3] = [2, 3, 4];
const SCAN: &str = "scan --a a.npy --b b.npy --out h.npy --device cpu";

fn ones(shape: &[usize]) -> Vec<u8> {
    npy(shape, &vec![1f32; shape.iter().product()])
}

/// Right inputs: `a.npy`, `b.npy`, `h0.npy`.
fn right() -> Scene {
    Scene::with(&[
        ("a.npy", ones(&SHAPE)),
        ("b.npy", ones(&SHAPE)),
        ("h0.npy", ones(&[2, 4])),
    ])
}

/// Right inputs but for this `a.npy`.
fn with_a(contents: Vec<u8>) -> Scene {
    let scene = right();
    scene.write("a.npy", &contents);
    scene
}

#[test]
fn the_right_inputs_succeed() {
    right().run(&format!("{SCAN} --h0 h0.npy")).ok();
}

#[test]
fn shapes_that_differ() {
    let scene = right();
    scene.write("b.npy", &ones(&[2, 3, 5]));
    scene.fails(SCAN, &["b.npy", "[2, 3, 5]", "[2, 3, 4]"]);
}

/// As many elements as `a` has, in another shape.
#[test]
fn shapes_that_differ_with_equal_lengths() {
    let scene = right();
    scene.write("b.npy", &ones(&[3, 2, 4]));
    scene.fails(SCAN, &["b.npy", "[3, 2, 4]", "[2, 3, 4]"]);
}

#[test]
fn shapes_that_are_not_three_dimensional() {
    for shape in [&[][..], &[24], &[6, 4], &[1, 2, 3, 4]] {
        with_a(ones(shape)).fails(SCAN, &["a.npy", &format!("{shape:?}")]);
    }
}

#[test]
fn an_initial_state_of_another_shape() {
    for shape in [&[2, 3][..], &[4, 2], &[8], &[2, 1, 4]] {
        let scene = right();
        scene.write("h0.npy", &ones(shape));
        let parts = ["h0.npy", &format!("{shape:?}"), "[2, 4]"];
        scene.fails(&format!("{SCAN} --h0 h0.npy"), &parts);
    }
}

#[test]
fn types_that_are_no_sequences() {
    for (descr, size) in [
        ("<f8", 8),
        ("<i4", 4),
        ("<i8", 8),
        ("|u1", 1),
        ("|b1", 1),
        ("<c8", 8),
        ("<U1", 4),
    ] {
        let data = vec![0; 24 * size];
        with_a(npy_bytes(descr, false, &SHAPE, &data)).fails(SCAN, &["a.npy", "f32"]);
    }
}

#[test]
fn types_that_differ() {
    let scene = right();
    let data = vec![0; 48];
    scene.write("b.npy", &npy_bytes("<f2", false, &SHAPE, &data));
    scene.fails(SCAN, &["b.npy", "f16", "f32"]);
}

#[test]
fn an_initial_state_that_is_not_f32() {
    let scene = right();
    scene.write("h0.npy", &npy_bytes("<f2", false, &[2, 4], &[0; 16]));
    scene.fails(&format!("{SCAN} --h0 h0.npy"), &["h0.npy", "f16", "f32"]);
}

#[test]
fn fortran_order() {
    let file = npy_bytes("<f4", true, &SHAPE, &[0; 96]);
    with_a(file).fails(SCAN, &["a.npy", "fortran"]);
}

#[test]
fn big_endian() {
    let file = npy_bytes(">f4", false, &SHAPE, &[0; 96]);
    with_a(file).fails(SCAN, &["a.npy", "endian"]);
}

/// Cut off anywhere: in the magic, the length, the header, the data.
#[test]
fn truncated() {
    let whole = ones(&SHAPE);
    for length in [
        3,
        7,
        9,
        20,
        whole.len() - 96,
        whole.len() - 50,
        whole.len() - 1,
    ] {
        with_a(whole[..length].to_vec()).fails(SCAN, &["a.npy"]);
    }
}

#[test]
fn more_data_than_the_header_says() {
    let mut file = ones(&SHAPE);
    file.extend([0; 4]);
    with_a(file).fails(SCAN, &["a.npy"]);
}

#[test]
fn empty_file() {
    with_a(Vec::new()).fails(SCAN, &["a.npy"]);
}

#[test]
fn files_that_are_not_npy() {
    for contents in [
        &b"PK\x03\x04 a zip archive"[..],
        b"1.0,2.0\n3.0,4.0\n",
        &[0; 500],
    ] {
        with_a(contents.to_vec()).fails(SCAN, &["a.npy", "npy"]);
    }
}

/// A header that promises more than any machine has: refused, not allocated.
#[test]
fn absurd_shapes() {
    for shape in [[1 << 40, 1 << 40, 1], [usize::MAX, 2, 2], [1, 1 << 42, 1]] {
        with_a(npy_bytes("<f4", false, &shape, &[0; 96])).fails(SCAN, &["a.npy"]);
    }
}

#[test]
fn headers_that_are_garbage() {
    let good = ones(&SHAPE);
    for (from, to) in [
        ("'descr'", "'descx'"),
        ("(2, 3, 4", "(2, -3, "),
        ("False", "Maybe"),
    ] {
        let text: Vec<u8> = good.clone();
        let at = text
            .windows(from.len())
            .position(|window| window == from.as_bytes())
            .unwrap();
        let mut bad = text;
        bad.splice(
            at..at + from.len(),
            format!("{to:<width$}", width = from.len()).bytes(),
        );
        with_a(bad).fails(SCAN, &["a.npy"]);
    }
}

#[test]
fn missing_files() {
    let scene = right();
    scene.fails("scan --a no.npy --b b.npy --out h.npy", &["no.npy"]);
    scene.fails("scan --a a.npy --b no.npy --out h.npy", &["no.npy"]);
    scene.fails(&format!("{SCAN} --h0 no.npy"), &["no.npy"]);
    scene.fails(&format!("{SCAN} --cu-seqlens no.npy"), &["no.npy"]);
    scene.fails(
        "scan --input no.safetensors --out y.safetensors",
        &["no.safetensors"],
    );
}

#[test]
fn a_folder_for_a_file() {
    let scene = right();
    std::fs::create_dir(scene.path("folder.npy")).unwrap();
    scene.fails(
        "scan --a folder.npy --b b.npy --out h.npy --device cpu",
        &["folder.npy"],
    );
    scene.fails(
        "scan --a a.npy --b b.npy --out folder.npy --device cpu",
        &["folder.npy"],
    );
}

#[test]
fn missing_arguments() {
    let scene = right();
    scene.fails("scan", &["--a"]);
    scene.fails("scan --a a.npy --out h.npy", &["--b"]);
    scene.fails("scan --a a.npy --b b.npy", &["--out"]);
    scene.fails(&format!("{SCAN} --no-such-option"), &["--no-such-option"]);
    scene.fails("no-such-command", &["no-such-command"]);
}

#[test]
fn files_of_both_kinds() {
    let scene = right();
    scene.write("x.safetensors", &safetensors(&[]));
    scene.fails(&format!("{SCAN} --input x.safetensors"), &["--input"]);
}

#[test]
fn unknown_devices() {
    for device in ["gpu", "tpu:0", "cuda:x", "cuda:-1", "cuda:4096", "CPU"] {
        let scene = right();
        scene.fails(
            &format!("scan --a a.npy --b b.npy --out h.npy --device {device}"),
            &[device],
        );
    }
}

/// Asked for and not there: an error, never the CPU instead.
#[test]
fn cuda_without_a_gpu() {
    right().fails_with(
        "scan --a a.npy --b b.npy --out h.npy --device cuda",
        &[("CUDA_VISIBLE_DEVICES", "")],
        &["cuda", "not available"],
    );
}

#[test]
fn unknown_layouts() {
    right().fails(
        &format!("{SCAN} --layout ldb"),
        &["layout", "ldb", "bld", "bdl"],
    );
}

#[test]
fn chunks_of_nothing() {
    for chunk in ["0", "-1", "many"] {
        right().fails(&format!("{SCAN} --chunk {chunk}"), &["chunk"]);
    }
}

#[test]
fn output_in_a_missing_folder() {
    let scene = right();
    let in_folder = "scan --a a.npy --b b.npy --out missing/h.npy --device cpu";
    scene.fails(in_folder, &["missing"]);
    scene.fails(
        &format!("{SCAN} --final-state missing/hT.npy"),
        &["missing"],
    );
}

#[test]
fn output_over_an_input() {
    let scene = right();
    for (out, name) in [("a.npy", "a.npy"), ("b.npy", "b.npy"), ("./b.npy", "b.npy")] {
        let line = format!("scan --a a.npy --b b.npy --out {out} --device cpu");
        scene.fails(&line, &["--out", name]);
    }
    scene.fails(
        &format!("{SCAN} --h0 h0.npy --final-state h0.npy"),
        &["h0.npy"],
    );
    scene.fails(&format!("{SCAN} --final-state h.npy"), &["h.npy"]);
}

#[test]
fn packed_sequences() {
    let packed = |lengths: &[usize], offsets: Vec<u8>| {
        let scene = Scene::with(&npy_inputs(&Case::packed(lengths, 4, 1).problem::<f32>()));
        scene.write("offsets.npy", &offsets);
        scene
    };
    for (offsets, parts) in [
        (&[1i64, 5][..], &["cu_seqlens", "1 at position 0"][..]),
        (&[0, 4, 3, 5], &["cu_seqlens", "3 at position 2"]),
        (&[0, 3, 4], &["cu_seqlens", "expected 5"]),
        (&[], &["cu_seqlens"]),
    ] {
        packed(&[3, 2], npy(&[offsets.len()], offsets))
            .fails(&format!("{SCAN} --cu-seqlens offsets.npy"), parts);
    }
    packed(&[3, 2], ones(&[3])).fails(
        &format!("{SCAN} --cu-seqlens offsets.npy"),
        &["offsets.npy", "i64"],
    );
    let scene = packed(&[3, 2], npy(&[3], &[0i64, 3, 5]));
    scene.fails(&format!("{SCAN} --lengths 3,3"), &["lengths", "6", "5"]);
    scene.fails(&format!("{SCAN} --lengths 3,-1"), &["lengths"]);
    scene.fails(&format!("{SCAN} --lengths 3,x"), &["lengths"]);
    let both = format!("{SCAN} --lengths 3,2 --cu-seqlens offsets.npy");
    scene.fails(&both, &["--lengths", "--cu-seqlens"]);
    right().fails(&format!("{SCAN} --lengths 1,2"), &["batch"]);
}

const FROM_SAFETENSORS: &str = "scan --input x.safetensors --out y.safetensors --device cpu";

#[test]
fn missing_tensors() {
    let ones = [1f32; 24];
    let scene = Scene::with(&[("x.safetensors", safetensors(&[tensor("a", &SHAPE, &ones)]))]);
    scene.fails(FROM_SAFETENSORS, &["x.safetensors", "`b`"]);
    scene.write("x.safetensors", &safetensors(&[tensor("b", &SHAPE, &ones)]));
    scene.fails(FROM_SAFETENSORS, &["x.safetensors", "`a`"]);
}

#[test]
fn tensors_that_do_not_fit() {
    let ones = [1f32; 40];
    let a = || tensor("a", &SHAPE, &ones[..24]);
    let b = || tensor("b", &SHAPE, &ones[..24]);
    for (tensors, parts) in [
        (
            vec![a(), tensor("b", &[2, 3, 5], &ones[..30])],
            &["`b`", "[2, 3, 5]"][..],
        ),
        (vec![a(), tensor("b", &SHAPE, &[0i64; 24])], &["`b`", "i64"]),
        (
            vec![a(), b(), tensor("h0", &[2, 5], &ones[..10])],
            &["`h0`", "[2, 5]"],
        ),
        (
            vec![a(), b(), tensor("cu_seqlens", &[2], &ones[..2])],
            &["cu_seqlens", "f32"],
        ),
    ] {
        let scene = Scene::with(&[("x.safetensors", safetensors(&tensors))]);
        scene.fails(FROM_SAFETENSORS, parts);
    }
}

#[test]
fn broken_safetensors() {
    let ones = [1f32; 24];
    let whole = safetensors(&[tensor("a", &SHAPE, &ones), tensor("b", &SHAPE, &ones)]);
    for contents in [
        &whole[..whole.len() - 1],
        &whole[..40],
        &whole[..4],
        b"",
        b"\xff\xff\xff\xff\xff\xff\xff\xff{}",
    ] {
        let scene = Scene::with(&[("x.safetensors", contents.to_vec())]);
        scene.fails(FROM_SAFETENSORS, &["x.safetensors"]);
    }
}

#[test]
fn files_of_an_unknown_kind() {
    let scene = right();
    scene.fails(
        "scan --a a.npy --b b.npy --out h.txt --device cpu",
        &["h.txt", "npy", "safetensors"],
    );
    scene.write("x.pt", b"anything");
    scene.fails(
        "scan --input x.pt --out y.safetensors --device cpu",
        &["x.pt"],
    );
}

/// The disk is full: simulated by a shell that allows files no bytes, and has the system
/// report that as an error of the write.
#[cfg(unix)]
#[test]
fn outputs_that_cannot_be_written() {
    let scene = right();
    let names = scene.names();
    let line = "trap '' XFSZ; ulimit -f 0; exec \"$@\"";
    let ran = scene.run_under(
        &["sh", "-c", line, "sh"],
        &format!("{SCAN} --final-state hT.npy"),
    );
    ran.failed(&["h.npy"]);
    assert_eq!(scene.names(), names);
}
