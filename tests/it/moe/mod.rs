//! The conformance suite of route, dispatch, combine and their gradients.

mod combine;
mod combine_backward;
mod data_errors;
mod dispatch;
mod dispatch_backward;
mod errors;
mod graph;
mod huge;
mod oracle;
mod route;

use ferroseq::ops::Route;
use ferroseq_tests::TestDevice;
use ferroseq_tests::moe::{CHOICES, Choice, Scene};
use std::fmt::Debug;

/// Tests functions `fn check<T>(&TestDevice) -> Result<(), String>` with each of these
/// types: a test for each in a module of the function's name.
macro_rules! every {
    (@ $check:ident [$($t:ident: $type:ty),*]) => {
        mod $check {
            $( #[test]
            fn $t() {
                crate::on_every_device(super::$check::<$type>);
            } )*
        }
    };
    ($types:tt $($check:ident)*) => { $( crate::moe::every! { @ $check $types } )* };
}

/// With every payload of dispatch.
macro_rules! every_payload {
    ($($check:ident)*) => {
        crate::moe::every! { [f32: f32, f16: half::f16, bf16: half::bf16, u8: u8] $($check)* }
    };
}

/// With every element type of combine.
macro_rules! every_element {
    ($($check:ident)*) => {
        crate::moe::every! { [f32: f32, f16: half::f16, bf16: half::bf16] $($check)* }
    };
}
use every;
use every_element;
use every_payload;

/// Routings of every kind, none of them large.
fn scenes(device: &TestDevice) -> Vec<Scene> {
    let mut scenes = Vec::new();
    let shapes = [
        (0, 1, 1),
        (1, 1, 1),
        (1, 32, 7),
        (7, 3, 3),
        (13, 4, 1),
        (31, 1, 64),
        (33, 2, 1024),
        (97, 8, 16),
    ];
    for (tokens, top_k, experts) in shapes {
        for choice in CHOICES {
            // The emulator is slow: one of the choices for each of the larger shapes.
            let small = tokens * top_k <= 33;
            if !device.cases.large && !small && choice != Choice::Invalid {
                continue;
            }
            let seed = scenes.len() as u64;
            let op = Route::new(tokens, top_k, experts);
            scenes.push(Scene::new(op, choice, seed));
            scenes.push(Scene::new(op.capacity(Some(2)).alignment(3), choice, seed));
        }
    }
    scenes
}

/// Compares integers or bits, and says where they differ.
pub fn same<T: PartialEq + Debug>(what: &str, found: &[T], expected: &[T]) -> Result<(), String> {
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Err(format!("{what}: {found} values, expected {expected}"));
    }
    match found.iter().zip(expected).position(|(f, e)| f != e) {
        None => Ok(()),
        Some(at) => Err(format!(
            "{what}: [{at}] is {:?}, expected {:?}",
            found[at], expected[at]
        )),
    }
}

/// An error of the device as a failure of `what`.
fn failed<T>(what: &impl Debug, result: ferroseq::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{what:?}: {error}"))
}
