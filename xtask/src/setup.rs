//! `cargo xtask setup`: installs what the build needs and the machine lacks. May call the
//! system's package manager, rustup and pip; never changes rustup's default toolchain.

use crate::process::{Run, step};
use crate::ptxas::{self, Ptxas};
use crate::toolchain::{self, Compiler, ENVIRONMENT, MINIMUM, NIGHTLY, Places, Search};
use crate::version::Release;
use crate::workspace::{Workspace, on_path};
use anyhow::{Result, bail};

/// Packages of a distribution that bring a rustc and its sources, best first.
const PACKAGES: [[&str; 2]; 2] = [["rustc-web", "rust-web-src"], ["rustc", "rust-src"]];

/// Runs the command.
pub fn run() -> Result<()> {
    let workspace = Workspace::locate()?;
    let compiler = device_compiler()?;
    println!(
        "device compiler   {} ({}), {}",
        compiler.version.text,
        compiler.rustc.display(),
        compiler.origin
    );
    println!("library sources   {}", compiler.library.display());
    match ptxas(&workspace) {
        Ok(ptxas) => println!(
            "ptxas             {} ({})",
            ptxas.version,
            ptxas.path.display()
        ),
        Err(reason) => println!(
            "ptxas             none; only check-ptx needs it\n                  {}",
            reason.replace('\n', "\n                  ")
        ),
    }
    Ok(())
}

/// The device compiler: the one that is there, else one that this installs.
///
/// Fails with the commands to type where it can install none.
pub fn device_compiler() -> Result<Compiler> {
    let search = toolchain::find(&Places::here());
    if let Some(compiler) = search.compiler {
        return Ok(compiler);
    }
    if std::env::var_os(ENVIRONMENT).is_some_and(|value| !value.is_empty()) {
        bail!(
            "{}\nUnset {ENVIRONMENT} to have one found or installed.",
            describe(&search)
        );
    }
    let mut failures = Vec::new();
    for install in plan(&situation()?) {
        step(format_args!(
            "installing the device compiler: {}",
            install.line()
        ));
        if let Err(error) = install.run() {
            eprintln!("{error:#}");
            failures.push(install.line());
            continue;
        }
        let search = toolchain::find(&Places::here());
        if let Some(compiler) = search.compiler {
            return Ok(compiler);
        }
        failures.push(format!("{}: {}", install.line(), describe(&search)));
    }
    let mut message = describe(&search);
    for failure in failures {
        message += &format!("\nTried without success: {failure}");
    }
    bail!("{message}\n{}", remedy())
}

/// What a person can type to get a device compiler.
pub fn remedy() -> String {
    let [packages, _] = PACKAGES;
    format!(
        "Install one of these:\n  \
         apt-get update && apt-get install {}     (as root; Debian, Ubuntu; {MINIMUM} or newer)\n  \
         {}\n\
         or name a rustc of {MINIMUM} or newer that has its library sources:\n  \
         export {ENVIRONMENT}=/path/to/rustc",
        packages.join(" "),
        Install::Nightly.line()
    )
}

/// Why no compiler was chosen.
pub fn describe(search: &Search) -> String {
    let mut text = "no compiler for the device code".to_owned();
    for rejected in &search.rejected {
        text += &format!(
            "\n  {} ({}): {}",
            rejected.rustc.display(),
            rejected.origin,
            rejected.reason
        );
    }
    text
}

/// What decides how to install.
#[derive(Clone, Debug, Default)]
struct Situation {
    root: bool,
    rustup: bool,
    /// For each of [`PACKAGES`], the version apt would install; `None` without apt.
    apt: Option<[Option<Release>; 2]>,
}

/// One way to install a device compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Install {
    Apt([&'static str; 2]),
    Nightly,
}

impl Install {
    fn line(&self) -> String {
        match self {
            Self::Apt(packages) => apt_install(packages).line(),
            Self::Nightly => nightly_install().line(),
        }
    }

    fn run(&self) -> Result<()> {
        match self {
            Self::Apt(packages) => apt_install(packages).show(),
            Self::Nightly => {
                // Where no default is set, some versions of rustup make one of the first
                // toolchain they install.
                let had_default = Run::new("rustup").arg("default").capture().is_ok();
                nightly_install().show()?;
                if !had_default {
                    Run::new("rustup").args(["default", "none"]).capture()?;
                }
                Ok(())
            }
        }
    }
}

fn apt_install(packages: &[&str]) -> Run {
    Run::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "--yes", "--no-install-recommends"])
        .args(packages)
}

fn nightly_install() -> Run {
    Run::new("rustup").args([
        "toolchain",
        "install",
        NIGHTLY,
        "--profile",
        "minimal",
        "--component",
        "rust-src",
        "--no-self-update",
    ])
}

/// The ways to try, in order.
fn plan(situation: &Situation) -> Vec<Install> {
    let mut ways = Vec::new();
    if let (true, Some(candidates)) = (situation.root, situation.apt) {
        ways.extend(
            PACKAGES
                .into_iter()
                .zip(candidates)
                .filter(|(_, candidate)| candidate.is_some_and(|release| release >= MINIMUM))
                .map(|(packages, _)| Install::Apt(packages)),
        );
    }
    if situation.rustup {
        ways.push(Install::Nightly);
    }
    ways
}

fn situation() -> Result<Situation> {
    let mut situation = Situation {
        root: is_root(),
        rustup: on_path("rustup").is_some(),
        apt: None,
    };
    if situation.root && on_path("apt-get").is_some() {
        let new_enough = |candidates: &[Option<Release>; 2]| {
            let mut known = candidates.iter().flatten();
            known.any(|&release| release >= MINIMUM)
        };
        let mut candidates = PACKAGES.map(|packages| candidate(&packages));
        if !new_enough(&candidates) {
            apt_update();
            candidates = PACKAGES.map(|packages| candidate(&packages));
        }
        situation.apt = Some(candidates);
    }
    Ok(situation)
}

/// The version that apt would install of these packages; `None` if it does not know them all.
fn candidate(packages: &[&str]) -> Option<Release> {
    let versions = packages.iter().map(|package| {
        let policy = Run::new("apt-cache").args(["policy", package]).capture();
        parse_candidate(&policy.ok()?)
    });
    // The pair is only of use in one version.
    versions.min().flatten()
}

fn parse_candidate(policy: &str) -> Option<Release> {
    let mut lines = policy.lines();
    Release::parse(lines.find_map(|line| line.trim().strip_prefix("Candidate:"))?)
}

fn apt_update() {
    step("apt-get update");
    let update = Run::new("apt-get").args(["update", "--quiet"]);
    if let Err(error) = update.capture() {
        eprintln!("{error:#}");
    }
}

fn is_root() -> bool {
    Run::new("id")
        .arg("-u")
        .capture()
        .is_ok_and(|user| user.trim() == "0")
}

/// ptxas: the one that is there, else one from PyPI; else why there is none.
pub fn ptxas(workspace: &Workspace) -> Result<Ptxas, String> {
    if let Some(ptxas) = ptxas::find(workspace) {
        return Ok(ptxas);
    }
    pip_install(ptxas::PACKAGE, &ptxas::install_folder(workspace))?;
    ptxas::find(workspace).ok_or_else(|| {
        format!(
            "{} was installed, but holds no ptxas that runs here",
            ptxas::PACKAGE
        )
    })
}

/// Installs one PyPI package, without what it depends on, to a folder of its own.
pub fn pip_install(package: &str, folder: &std::path::Path) -> Result<(), String> {
    let pip = |package: &str, folder: &std::path::Path| {
        Run::new("python3")
            .env("PIP_ROOT_USER_ACTION", "ignore")
            .args(["-m", "pip", "install", "--no-deps", "--upgrade", "--quiet"])
            .args(["--disable-pip-version-check", "--retries", "1", "--target"])
            .arg(folder)
            .arg(package)
    };
    let line = pip(package, folder).line();
    let has_pip = || {
        Run::new("python3")
            .args(["-m", "pip", "--version"])
            .capture()
    };
    if has_pip().is_err() {
        if !(is_root() && on_path("apt-get").is_some()) {
            return Err(format!("python3 has no pip; with pip, type: {line}"));
        }
        step("installing pip: apt-get install python3-pip");
        let install = || apt_install(&["python3-pip"]).capture();
        let installed = install().or_else(|_| {
            apt_update();
            install()
        });
        installed.map_err(|error| format!("{error:#}\nWith pip, type: {line}"))?;
    }
    step(&line);
    pip(package, folder)
        .capture()
        .map(drop)
        .map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Option<Release> = Some(Release(1, 96, 0));
    const OLD: Option<Release> = Some(Release(1, 63, 0));

    fn ways(root: bool, rustup: bool, apt: Option<[Option<Release>; 2]>) -> Vec<Install> {
        plan(&Situation { root, rustup, apt })
    }

    #[test]
    fn root_on_debian_takes_the_packages_that_are_new_enough() {
        let [web, plain] = PACKAGES.map(Install::Apt);
        let only = |way: &Install| vec![way.clone()];
        assert_eq!(ways(true, false, Some([NEW, OLD])), only(&web));
        assert_eq!(ways(true, false, Some([None, NEW])), only(&plain));
        assert_eq!(
            ways(true, true, Some([NEW, NEW])),
            [web, plain, Install::Nightly]
        );
    }

    #[test]
    fn others_take_the_nightly() {
        assert_eq!(ways(true, true, Some([OLD, None])), [Install::Nightly]);
        assert_eq!(ways(false, true, Some([NEW, NEW])), [Install::Nightly]);
        assert_eq!(ways(false, true, None), [Install::Nightly]);
    }

    #[test]
    fn without_root_and_rustup_there_is_no_way() {
        assert_eq!(ways(false, false, Some([NEW, NEW])), []);
        assert_eq!(ways(true, false, Some([OLD, OLD])), []);
    }

    #[test]
    fn candidates() {
        let policy = "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n  Version table:\n";
        assert_eq!(parse_candidate(policy), NEW);
        assert_eq!(parse_candidate("rustc:\n  Candidate: (none)\n"), None);
        assert_eq!(parse_candidate(""), None);
    }

    #[test]
    fn the_remedy_is_commands() {
        let text = remedy();
        for part in [
            "apt-get install rustc-web rust-web-src",
            "rustup toolchain install nightly-2026-04-02",
            "--component rust-src",
            "FERROSEQ_DEVICE_RUSTC=",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn what_was_passed_over_is_told() {
        let search = Search {
            compiler: None,
            rejected: vec![toolchain::Rejected {
                rustc: "/usr/bin/rustc".into(),
                origin: toolchain::Origin::Distribution,
                reason: "it is 1.63.0".into(),
            }],
        };
        assert_eq!(
            describe(&search),
            "no compiler for the device code\n  /usr/bin/rustc (the system's): it is 1.63.0"
        );
    }
}
