//! `ferroseq info`, help and version.

use super::scene::Scene;
use ferroseq_tests::devices;

/// With the GPUs there are, or without any: it always succeeds and says which.
#[test]
fn lists_what_is_there() {
    let text = Scene::new().run("info").ok().stdout;
    for device in devices().iter().filter(|device| device.spec == "cuda:0") {
        let name = device.device.to_string();
        let name = name.trim_start_matches("cuda:0 (").trim_end_matches(')');
        assert!(text.contains(name), "no {name} in\n{text}");
        assert!(text.contains("sm_"), "{text}");
    }
}

/// `CUDA_VISIBLE_DEVICES` empty hides the GPUs from the driver; without a driver there is
/// nothing to hide. Either way the binary starts, says that there is none, and exits 0.
#[test]
fn without_a_gpu() {
    let scene = Scene::new();
    let hidden = [("CUDA_VISIBLE_DEVICES", "")];
    let text = scene.run_with("info", &hidden).ok().stdout.to_lowercase();
    assert!(!text.contains("cuda:0"), "{text}");
    let says_none = |line: &str| line.contains("none") || line.contains("no gpu");
    assert!(
        text.lines()
            .any(|line| says_none(line) && !line.contains("ptx")),
        "not said that there is no GPU:\n{text}"
    );
    let json = scene.run_with("info --json", &hidden).ok().json();
    assert_eq!(json["gpus"], serde_json::json!([]), "{json}");
}

#[test]
fn json_has_what_the_text_has() {
    let json = Scene::new().run("info --json").ok().json();
    assert!(json["version"].is_string(), "{json}");
    assert!(json["cpu_threads"].as_u64() >= Some(1), "{json}");
    assert!(json["driver"].is_object(), "{json}");
    assert!(json["ptx"]["modules"].is_array(), "{json}");
    let gpus = json["gpus"].as_array().unwrap().len();
    assert_eq!(gpus > 0, ferroseq::Device::cuda(0).is_ok(), "{json}");
}

#[test]
fn help_shows_every_option_and_an_example() {
    let scene = Scene::new();
    let top = scene.run("--help").ok().stdout;
    assert!(top.contains("scan") && top.contains("info"), "{top}");
    let scan = scene.run("scan --help").ok().stdout;
    for option in [
        "--a",
        "--b",
        "--h0",
        "--out",
        "--final-state",
        "--device",
        "--layout",
        "--reverse",
        "--cu-seqlens",
        "--lengths",
        "--chunk",
        "--json",
        "--input",
    ] {
        assert!(scan.contains(option), "no {option} in\n{scan}");
    }
    assert!(scan.contains("ferroseq scan --a"), "no example in\n{scan}");
}

#[test]
fn version() {
    let text = Scene::new().run("--version").ok().stdout;
    assert!(text.starts_with("ferroseq "), "{text}");
}
