//! The two known miscompiles, compiled by the compiler that compiles the kernels.

use crate::build_ptx::compile::{self, Unit};
use crate::check_ptx::ptx::Module;
use crate::check_ptx::{converge, count, parse};
use crate::manifest::{Arch, Profile};
use crate::setup;
use crate::toolchain::{self, Places};
use crate::workspace::Workspace;

fn fixture(arch: Arch) -> Module {
    let workspace = Workspace::locate().unwrap();
    let search = toolchain::find(&Places::here());
    let Some(compiler) = &search.compiler else {
        panic!("{}; `cargo xtask setup`", setup::describe(&search))
    };
    let unit = Unit {
        manifest: &workspace.root.join("xtask/fixtures/miscompiles/Cargo.toml"),
        package: "miscompiles",
        features: "",
        module: "miscompiles",
        arch,
        profile: Profile::Release,
    };
    parse::module(&compile::compile(&workspace, compiler, &unit).unwrap()).unwrap()
}

fn findings(module: &Module, entry: &str) -> Vec<String> {
    let function = module.functions.iter().find(|f| f.name == entry).unwrap();
    let findings = converge::check(module, function).unwrap();
    findings.into_iter().map(|f| f.instruction).collect()
}

fn counted(module: &Module, entry: &str, kind: &str) -> u64 {
    let function = module.functions.iter().find(|f| f.name == entry).unwrap();
    count::function(module, function)
        .get(kind)
        .copied()
        .unwrap_or(0)
}

/// The compiler sinks the shuffle into the branch that uses it. Its number stays the same:
/// only the convergence check sees it.
#[test]
fn both_miscompiles_are_caught_and_their_twins_pass() {
    let module = fixture(Arch(90));
    assert_eq!(findings(&module, "shuffle_asm"), ["shfl.sync.up.b32"]);
    assert_eq!(counted(&module, "shuffle_asm", "shuffle"), 1);
    assert_eq!(findings(&module, "shuffle_llvm"), [""; 0]);
    assert_eq!(counted(&module, "shuffle_llvm", "shuffle"), 1);

    // The one barrier of the source, copied into arms of the branch: both checks see it.
    let barriers = findings(&module, "barrier_asm");
    assert!(!barriers.is_empty());
    assert!(barriers.iter().all(|b| b == "bar.sync"), "{barriers:?}");
    assert!(counted(&module, "barrier_asm", "barrier") > 1);
    assert_eq!(findings(&module, "barrier_llvm"), [""; 0]);
    assert_eq!(counted(&module, "barrier_llvm", "barrier"), 1);

    // A correct kernel with barriers, shuffles and votes under uniform conditions, in the
    // numbers of its source: no false alarm.
    assert_eq!(findings(&module, "look_back"), [""; 0]);
    assert_eq!(counted(&module, "look_back", "barrier"), 6);
    assert_eq!(counted(&module, "look_back", "shuffle"), 16);
    assert_eq!(counted(&module, "look_back", "vote"), 2);
}
