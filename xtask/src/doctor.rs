//! `cargo xtask doctor`: what is here, what is missing, what mends it. Looks only.

use crate::build_ptx::{self, Generator, Options};
use crate::manifest::{Manifest, State};
use crate::process::Run;
use crate::ptxas;
use crate::rust_cuda;
use crate::setup;
use crate::toolchain::{self, Compiler, ENVIRONMENT, Places, Search, pinned_channel};
use crate::version::Release;
use crate::workspace::{Workspace, on_path};
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// Arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON: `{"ok": …, "checks": [{"name", "state", "found", "remedy"}]}`.
    #[arg(long)]
    json: bool,
}

/// How a part stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Standing {
    Ok,
    /// Not here, but nothing fails for it.
    Optional,
    Missing,
}

/// One part.
#[derive(Clone, Debug, Serialize)]
struct Check {
    name: &'static str,
    state: Standing,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: Standing::Ok,
            found: found.into(),
            remedy: None,
        }
    }

    fn missing(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            name,
            state: Standing::Missing,
            found: found.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn optional(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            state: Standing::Optional,
            ..Self::missing(name, found, remedy)
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    let checks = checks();
    let ok = checks.iter().all(|check| check.state != Standing::Missing);
    if args.json {
        println!("{}", serde_json::json!({ "ok": ok, "checks": checks }));
    } else {
        print!("{}", render(&checks, ok));
    }
    if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn checks() -> Vec<Check> {
    let workspace = match Workspace::locate() {
        Ok(workspace) => workspace,
        Err(error) => {
            let remedy = "run it as `cargo xtask doctor`, in the checkout";
            return vec![Check::missing("workspace", format!("{error:#}"), remedy)];
        }
    };
    let places = Places::here();
    let search = toolchain::find(&places);
    let mut checks = vec![host(&workspace), linker()];
    match &search.compiler {
        Some(compiler) => checks.extend(device(compiler)),
        None => checks.push(no_device(&places, &search)),
    }
    let places = rust_cuda::Places::here(&rust_cuda::Named::default());
    let rust_cuda = rust_cuda::find(&places);
    checks.extend(second(&places, &rust_cuda));
    // What build-ptx takes by itself.
    let generator = match (rust_cuda.found, search.compiler) {
        (Some(rust_cuda), _) => Some(Generator::Nvvm(Box::new(rust_cuda))),
        (None, compiler) => compiler.map(Generator::Nvptx),
    };
    checks.push(ptx(&workspace, generator.as_ref()));
    checks.push(match ptxas::find(&workspace) {
        Some(ptxas) => Check::ok(
            "ptxas",
            format!("{} ({})", ptxas.version, ptxas.path.display()),
        ),
        None => Check::optional(
            "ptxas",
            "none; only check-ptx needs it",
            "cargo xtask setup",
        ),
    });
    checks.extend(gpu());
    checks
}

/// The toolchain that `rust-toolchain.toml` asks for.
fn host(workspace: &Workspace) -> Check {
    const NAME: &str = "host toolchain";
    let pinned = fs::read_to_string(workspace.root.join("rust-toolchain.toml"))
        .ok()
        .and_then(|text| pinned_channel(&text));
    let rustc = Run::new("rustc").arg("-V").dir(&workspace.root).capture();
    let (Some(pinned), Ok(rustc)) = (&pinned, &rustc) else {
        let remedy = match pinned {
            Some(channel) => format!("rustup toolchain install {channel}"),
            None => "git checkout rust-toolchain.toml".to_owned(),
        };
        return Check::missing(NAME, "no rustc, or no rust-toolchain.toml", remedy);
    };
    let rustc = rustc.trim();
    let release = rustc.strip_prefix("rustc ").and_then(Release::parse);
    if release < Release::parse(pinned) {
        let remedy = format!("rustup toolchain install {pinned}");
        return Check::missing(NAME, format!("{rustc}, older than {pinned}"), remedy);
    }
    Check::ok(NAME, rustc)
}

fn linker() -> Check {
    match on_path("cc") {
        Some(path) => Check::ok("linker", path.display().to_string()),
        None => Check::missing(
            "linker",
            "no `cc` on PATH",
            "apt-get install gcc libc6-dev     (as root; or your system's C compiler)",
        ),
    }
}

fn device(compiler: &Compiler) -> [Check; 2] {
    [
        Check::ok(
            "device compiler",
            format!(
                "{}, LLVM {} ({}), {}",
                compiler.version.text,
                compiler.version.llvm,
                compiler.rustc.display(),
                compiler.origin
            ),
        ),
        Check::ok("library sources", compiler.library.display().to_string()),
    ]
}

fn no_device(places: &Places, search: &Search) -> Check {
    // A compiler that the user named is the only one looked at; setup respects that too.
    let remedy = match places.explicit {
        Some(_) => format!("unset {ENVIRONMENT}; cargo xtask setup"),
        None => format!("cargo xtask setup\nor by hand. {}", setup::remedy()),
    };
    Check::missing("device compiler", setup::describe(search), remedy)
}

/// The second code generator. Nothing fails without it.
fn second(places: &rust_cuda::Places, search: &rust_cuda::Search) -> Vec<Check> {
    let mut checks: Vec<_> = search
        .parts
        .iter()
        .map(|part| match &part.state {
            Ok(found) => Check::ok(part.name, found),
            Err(missing) => Check::optional(part.name, &missing.found, &missing.remedy),
        })
        .collect();
    if places.checkout.is_none() {
        // Nobody wants it: what else of it is missing would only be noise.
        checks.truncate(1);
    }
    checks
}

fn ptx(workspace: &Workspace, generator: Option<&Generator>) -> Check {
    const NAME: &str = "PTX";
    const REMEDY: &str = "cargo xtask build-ptx";
    let Some(generator) = generator else {
        return Check::missing(NAME, "not checked: no device compiler", REMEDY);
    };
    let options = Options::default();
    let inputs = match build_ptx::inputs(workspace, generator, options.profile) {
        Ok(inputs) => inputs,
        Err(error) => return Check::missing(NAME, format!("{error:#}"), "git checkout ."),
    };
    let folder = workspace.ptx().join(&inputs.codegen);
    let modules = build_ptx::modules();
    match Manifest::state(&folder, &inputs, &modules, &options.archs) {
        State::Missing => Check::missing(NAME, "not built yet", REMEDY),
        State::Stale(reason) => Check::missing(NAME, format!("out of date: {reason}"), REMEDY),
        State::Fresh => {
            let archs = Manifest::read(&folder).ok().flatten();
            let archs = archs.map(|manifest| manifest.archs()).unwrap_or_default();
            let archs: Vec<_> = archs.iter().map(ToString::to_string).collect();
            Check::ok(
                NAME,
                format!(
                    "{} for {} by {} ({})",
                    modules.join(", "),
                    archs.join(", "),
                    inputs.codegen,
                    folder.display()
                ),
            )
        }
    }
}

/// Driver and GPU. Told from outside: the host library may not even build yet.
fn gpu() -> [Check; 2] {
    const DRIVER: &str = "an NVIDIA driver is part of your system; the CPU backend needs none";
    let driver = match libcuda() {
        Some(path) => Check::ok("driver", path),
        None => Check::optional("driver", "no libcuda.so.1", DRIVER),
    };
    let listed = Run::new("nvidia-smi")
        .args([
            "--query-gpu=name,compute_cap,driver_version",
            "--format=csv,noheader",
        ])
        .capture();
    let listed = listed.unwrap_or_default();
    let gpus: Vec<&str> = listed
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let gpu = if !gpus.is_empty() {
        Check::ok("GPU", gpus.join("\n"))
    } else {
        Check::optional(
            "GPU",
            "none that nvidia-smi lists; the CPU backend needs none",
            "`ferroseq info` asks the driver itself",
        )
    };
    [driver, gpu]
}

/// The driver's library, as the loader would find it.
fn libcuda() -> Option<String> {
    let cache = ["ldconfig", "/sbin/ldconfig"]
        .iter()
        .find_map(|program| Run::new(program).arg("-p").capture().ok());
    let cached = cache.as_deref().and_then(|cache| {
        let line = cache.lines().find(|line| line.contains("libcuda.so.1"))?;
        Some(line.split("=> ").nth(1)?.trim().to_owned())
    });
    cached.or_else(|| {
        let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        std::env::split_paths(&folders)
            .map(|folder| folder.join("libcuda.so.1"))
            .chain([Path::new("/usr/lib/wsl/lib/libcuda.so.1").to_owned()])
            .find(|path| path.exists())
            .map(|path| path.display().to_string())
    })
}

fn render(checks: &[Check], ok: bool) -> String {
    let mut text = String::new();
    for check in checks {
        let state = match check.state {
            Standing::Ok => "ok",
            Standing::Optional => "optional",
            Standing::Missing => "MISSING",
        };
        let found = check.found.replace('\n', "\n                            ");
        text += &format!("{state:<9} {:<17} {found}\n", check.name);
        if let Some(remedy) = &check.remedy {
            let remedy = remedy.replace('\n', "\n                               ");
            text += &format!("{:28}-> {remedy}\n", "");
        }
    }
    text += if ok {
        "All that is required is here.\n"
    } else {
        "Something is missing: follow the lines with an arrow, then run this again.\n"
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_that_is_missing_has_a_remedy_on_its_line() {
        let checks = [
            Check::ok("linker", "cc"),
            Check::missing("PTX", "not built yet", "cargo xtask build-ptx"),
            Check::optional("ptxas", "none", "cargo xtask setup"),
        ];
        let text = render(&checks, false);
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        assert_eq!(lines[0], "ok        linker            cc");
        assert_eq!(lines[1], "MISSING   PTX               not built yet");
        assert_eq!(lines[2], "-> cargo xtask build-ptx");
        assert_eq!(lines[3], "optional  ptxas             none");
        assert!(lines[5].starts_with("Something is missing"));
    }

    #[test]
    fn the_pinned_channel() {
        let text = "# why\n[toolchain]\nchannel = \"1.95.0\"\n";
        assert_eq!(pinned_channel(text).as_deref(), Some("1.95.0"));
        assert_eq!(pinned_channel("[toolchain]\n"), None);
    }

    #[test]
    fn the_remedy_for_a_compiler_that_was_named_is_to_name_none() {
        let mut places = Places {
            explicit: Some("/nowhere/rustc".into()),
            rustup_toolchains: None,
            path: Vec::new(),
        };
        let remedy = |places: &Places| {
            let check = no_device(places, &toolchain::find(places));
            assert_eq!(check.state, Standing::Missing);
            check.remedy.unwrap()
        };
        assert_eq!(
            remedy(&places),
            "unset FERROSEQ_DEVICE_RUSTC; cargo xtask setup"
        );
        places.explicit = None;
        assert!(remedy(&places).starts_with("cargo xtask setup\n"));
    }

    #[test]
    fn rust_cuda_is_one_line_until_it_is_named() {
        let mut places = rust_cuda::Places::default();
        let checks = |places: &rust_cuda::Places| second(places, &rust_cuda::find(places));
        let [check] = &checks(&places)[..] else {
            panic!("{:?}", checks(&places));
        };
        assert_eq!(check.state, Standing::Optional);
        assert_eq!(check.found, "no checkout is named");
        places.checkout = Some("/nowhere".into());
        let found = checks(&places);
        assert_eq!(found.len(), 3);
        let optional = |check: &Check| check.state == Standing::Optional && check.remedy.is_some();
        assert!(found.iter().all(optional), "{found:?}");
    }

    #[test]
    fn without_a_compiler_the_ptx_is_not_called_fresh() {
        let workspace = Workspace {
            root: "/nowhere".into(),
            target: "/nowhere/target".into(),
        };
        let check = ptx(&workspace, None);
        assert_eq!(check.state, Standing::Missing);
        assert_eq!(check.remedy.as_deref(), Some("cargo xtask build-ptx"));
    }
}
