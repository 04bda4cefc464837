//! `ferroseq bench` on the CPU: the table, the files, the exit code.

use super::scene::Scene;

const SMALL: &str = "bench linear-scan --device cpu --shape 2,50,16 --samples 30";

const PEERS: &str = r#"
some line that a script printed
{"op": "scan", "shape": [2, 50, 16], "dtype": "f32", "peer": "a slow one", "us": 3e6}
{"op": "scan", "shape": [2, 50, 16], "dtype": "f32", "peer": "a fast one", "us": 1e6}
{"peer": "a broken one", "error": "it broke"}
"#;

#[test]
fn the_table_the_json_the_picture_and_the_peers() {
    let scene = Scene::with(&[("peers.json", PEERS.into())]);
    let layouts = "--layout bld,bdl --json out.json --plot out.svg --compare peers.json";
    let ran = scene.run(&format!("{SMALL} {layouts}")).ok();
    for part in [
        "cpu (",
        "triad",
        "%ceiling",
        "x floor",
        "linear-scan",
        "[2,50,16]",
        "a fast one, 1000000 us",
        "`a broken one` did not run: it broke",
        "1 line without a JSON row",
    ] {
        assert!(ran.stdout.contains(part), "no {part:?} in {ran:#?}");
    }
    assert_eq!(scene.names(), ["out.json", "out.svg", "peers.json"]);

    let json: serde_json::Value = serde_json::from_slice(&scene.read("out.json")).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, layout) in rows.iter().zip(["bld", "bdl"]) {
        assert_eq!(row["op"], "linear-scan");
        assert_eq!(row["shape"], serde_json::json!([2, 50, 16]));
        assert_eq!(row["dtype"], "f32");
        assert_eq!(row["layout"], layout);
        assert_eq!(row["bytes"], 3 * 2 * 50 * 16 * 4);
        assert_eq!(row["status"], "ok");
        assert_eq!(row["peer"]["peer"], "a fast one");
        for time in ["cold", "warm"] {
            let at = |field: &str| row[time][field].as_f64().unwrap();
            assert!(at("p10_us") <= at("median_us") && at("median_us") <= at("p90_us"));
            assert_eq!(row[time]["samples"], 30);
        }
        assert!(row["error"]["relative"].as_f64().unwrap() < 1e-6);
        assert_eq!(row["error"]["sampled"], 32);
    }
    let svg = String::from_utf8(scene.read("out.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("linear-scan f32 bdl [2,50,16]"));
}

#[test]
fn a_wrong_result_is_failed_and_so_is_the_command() {
    let scene = Scene::new();
    let ran = scene.run(&format!("{SMALL} --plant-fault --json out.json"));
    assert!(ran.stdout.contains("FAILED"), "{ran:#?}");
    assert!(ran.stdout.contains("wrong result"), "{ran:#?}");
    assert!(ran.stderr.contains("1 of 1 rows"), "{ran:#?}");
    assert!(ran.is_failure(), "{ran:#?}");
    // The report is what explains the failure.
    let json: serde_json::Value = serde_json::from_slice(&scene.read("out.json")).unwrap();
    assert_eq!(json["rows"][0]["status"], "FAILED");
}

#[test]
fn what_makes_no_sense_is_said_before_anything_is_measured() {
    let scene = Scene::with(&[("text.json", "no rows here".into())]);
    let cases: [(&str, &[&str]); 9] = [
        ("bench scan", &["scan", "linear-scan"]),
        ("bench --device gpu", &["gpu", "auto, cpu, cuda"]),
        ("bench --samples 29", &["samples", "expected 30 to"]),
        (
            "bench linear-scan --device cpu --shape 2,3",
            &["2 sizes", "B,L,D"],
        ),
        (
            "bench linear-scan --device cpu --shape 2,0,3",
            &["2,0,3", "at least 1"],
        ),
        ("bench --device cpu --dtype f64", &["f64", "bf16"]),
        ("bench --device cpu --compare none.json", &["none.json"]),
        (
            "bench --device cpu --compare text.json",
            &["text.json", "without a row"],
        ),
        (
            "bench --device cpu --json none/out.json",
            &["none/out.json"],
        ),
    ];
    for (arguments, parts) in cases {
        scene.fails(arguments, parts);
    }
}

#[test]
fn the_emulator_is_not_measured() {
    Scene::new().fails("bench --device emulated", &["emulated"]);
}
