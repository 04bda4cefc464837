//! Reading ptxas, and the register budget.

use crate::check_ptx::ptxas::{Usage, architectures, register_budget, usage};

const SAID: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'plain' for 'sm_90'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 29 registers, used 1 barriers, 1024 bytes smem, 456 bytes cmem[0]
ptxas info    : Compile time = 76.714 ms
ptxas info    : Function properties for panic
    80 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
ptxas info    : Compiling entry function 'spilling' for 'sm_90'
ptxas info    : Function properties for panic
    80 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
ptxas info    : Function properties for spilling
    24 bytes stack frame, 44 bytes spill stores, 48 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 24 bytes cumulative stack size
";

#[test]
fn what_each_kernel_takes() {
    let all = usage(SAID).unwrap();
    let plain = Usage {
        registers: 29,
        shared: 1024,
        barriers: 1,
        ..Usage::default()
    };
    let spilling = Usage {
        registers: 32,
        spill_stores: 44,
        spill_loads: 48,
        stack: 24,
        ..Usage::default()
    };
    let expected = [
        ("plain".to_owned(), plain),
        ("spilling".to_owned(), spilling),
    ];
    assert_eq!(all, expected.into());
}

#[test]
fn an_answer_without_registers_is_an_error() {
    let text = "ptxas info : Compiling entry function 'k' for 'sm_90'\nsomething else\n";
    let error = usage(text).unwrap_err().to_string();
    assert!(error.contains("how many registers `k` takes"), "{error}");
}

#[test]
fn architectures_of_the_help() {
    let help = "Allowed values: 'compute_90','lto_80','sm_100',\n 'sm_100a','sm_120f','sm_75','sm_80','sm_90','sm_90a'.\n PTX for sm_XY\n Default value:  'sm_75'.";
    assert_eq!(architectures(help), [80, 90, 100]);
}

#[test]
fn budgets() {
    assert_eq!(register_budget(128, 0), 255);
    assert_eq!(register_budget(256, 1), 255);
    assert_eq!(register_budget(256, 4), 64);
    assert_eq!(register_budget(1024, 1), 64);
    assert_eq!(register_budget(384, 1), 168);
}
