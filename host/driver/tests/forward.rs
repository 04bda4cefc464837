//! The exported functions, with no driver and with a fake one.
//!
//! The library is chosen once in a process, so each case is a process: the test runs
//! itself again with another `FERROSEQ_LIBCUDA`.

use std::ffi::c_void;
use std::process::Command;

unsafe extern "C" {
    fn cuInit(flags: u32) -> i32;
    fn cuDriverGetVersion(version: *mut i32) -> i32;
    fn cuStreamSynchronize(stream: *mut c_void) -> i32;
    fn cuCtxSynchronize() -> i32;
}

const CASE: &str = "FERROSEQ_DRIVER_TEST_CASE";

/// Runs test `name` again, in a process whose driver is `library`.
fn again(name: &str, library: &str) {
    let me = std::env::current_exe().expect("path of this test");
    let output = Command::new(me)
        .args(["--exact", name, "--nocapture"])
        .env("FERROSEQ_LIBCUDA", library)
        .env(CASE, "1")
        .output()
        .expect("run this test again");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

fn is_again() -> bool {
    std::env::var_os(CASE).is_some()
}

#[test]
fn without_a_driver_every_call_says_no_device() {
    if !is_again() {
        return again(
            "without_a_driver_every_call_says_no_device",
            "libno-driver.so",
        );
    }
    // SAFETY: no driver is loaded, so nothing is dereferenced.
    let codes = unsafe { [cuInit(0), cuDriverGetVersion(std::ptr::null_mut())] };
    assert_eq!(codes, [ferroseq_driver::NO_DEVICE; 2]);
    let missing = ferroseq_driver::status().expect_err("no driver");
    assert_eq!(missing.tried.len(), 1);
    let (name, text) = ferroseq_driver::describe(ferroseq_driver::NO_DEVICE);
    assert_eq!(name, "CUDA_ERROR_NO_DEVICE");
    assert!(text.contains("libno-driver.so"), "{text}");
}

#[test]
fn calls_reach_the_driver_and_unknown_codes_stop_here() {
    if !is_again() {
        let me = std::env::current_exe().expect("path of this test");
        let folder = me.ancestors().nth(2).expect("target folder");
        let fake = folder.join("examples/libfake_driver.so");
        let fake = fake.to_str().expect("UTF-8 path");
        return again("calls_reach_the_driver_and_unknown_codes_stop_here", fake);
    }
    assert!(ferroseq_driver::status().is_ok());
    let mut version = 0;
    // SAFETY: the fake driver writes one integer, and never follows a stream.
    unsafe {
        assert_eq!(cuInit(0), ferroseq_driver::SUCCESS);
        assert_eq!(cuDriverGetVersion(&mut version), ferroseq_driver::SUCCESS);
        assert_eq!(version, 99_010);
        assert_eq!(cuStreamSynchronize(700 as *mut c_void), 700);
        assert_eq!(
            cuStreamSynchronize(226 as *mut c_void),
            ferroseq_driver::UNKNOWN
        );
    }
    assert_eq!(ferroseq_driver::last_code(), 226);
    let described = ferroseq_driver::describe(226);
    assert_eq!(described.0, "CUDA_ERROR_FAKE");
    assert_eq!(described.1, "a code from the future");

    // SAFETY: takes no argument; the fake driver does not have it.
    let code = unsafe { cuCtxSynchronize() };
    assert_eq!(code, ferroseq_driver::NOT_FOUND);
}
