//! Comparisons: a result with what the oracle allows, and two results bit for bit.

use crate::devices::TestDevice;
use crate::oracle::linear_scan::{Expected, linear_scan};
use crate::oracle::selective_scan::selective_scan;
use crate::problem::{Outcome, Problem};
use crate::sample::{Sample, comparable_bits};
use crate::selective::{SelectiveOutcome, SelectiveProblem};
use std::fmt::Debug;

/// Runs `problem` on `device` and compares everything it returns with the oracle.
///
/// # Errors
/// What went wrong, where, and how often.
pub fn conforms<T: Sample>(device: &TestDevice, problem: &Problem<T>) -> Result<(), String> {
    let outcome = problem
        .run(&device.device)
        .map_err(|error| format!("{}: {}: {error}", device.device, problem.describe()))?;
    agrees(device, problem, &outcome)
}

/// Compares `outcome` with the oracle.
///
/// # Errors
/// What went wrong, where, and how often.
pub fn agrees<T: Sample>(
    device: &TestDevice,
    problem: &Problem<T>,
    outcome: &Outcome<T>,
) -> Result<(), String> {
    let truth = linear_scan(problem);
    let exact = device.is_sequential();
    all_right(&outcome.h, &truth.h, exact)
        .map_err(|wrong| format!("h{wrong}"))
        .and_then(|()| {
            all_right(&outcome.final_state, &truth.final_state, exact)
                .map_err(|wrong| format!("final_state{wrong}"))
        })
        .map_err(|wrong| format!("{}: {}: {wrong}", device.device, problem.describe()))
}

/// Runs a selective scan on `device` and compares everything it returns with the oracle.
///
/// # Errors
/// What went wrong, where, and how often.
pub fn selective_conforms<T: Sample>(
    device: &TestDevice,
    problem: &SelectiveProblem<T>,
) -> Result<(), String> {
    let outcome = problem
        .run(&device.device)
        .map_err(|error| format!("{}: {}: {error}", device.device, problem.describe()))?;
    selective_agrees(device, problem, &outcome)
}

/// Compares the outcome of a selective scan with the oracle.
///
/// # Errors
/// What went wrong, where, and how often.
pub fn selective_agrees<T: Sample>(
    device: &TestDevice,
    problem: &SelectiveProblem<T>,
    outcome: &SelectiveOutcome<T>,
) -> Result<(), String> {
    let truth = selective_scan(problem);
    all_right(&outcome.y, &truth.y, false)
        .map_err(|wrong| format!("y{wrong}"))
        .and_then(|()| {
            all_right(&outcome.final_state, &truth.final_state, false)
                .map_err(|wrong| format!("final_state{wrong}"))
        })
        .map_err(|wrong| format!("{}: {}: {wrong}", device.device, problem.describe()))
}

/// Compares values with what they must be; `exact` where the order of operations is fixed.
///
/// # Errors
/// The first wrong value and how many are wrong.
pub fn all_right<T: Sample>(found: &[T], expected: &[Expected], exact: bool) -> Result<(), String> {
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Err(format!(" holds {found} values, expected {expected}"));
    }
    let mut wrong = found
        .iter()
        .zip(expected)
        .enumerate()
        .filter(|(_, (found, expected))| !is_right(**found, expected, exact));
    match wrong.next() {
        None => Ok(()),
        Some((at, (value, expected))) => Err(format!(
            "[{at}] is {value:?}, expected {expected:?}{}; {} of {} are wrong",
            if exact { " exactly" } else { "" },
            1 + wrong.count(),
            found.len(),
        )),
    }
}

/// Whether one value is what it must be. NaN and infinities belong exactly where the
/// sequential definition puts them; finite values may differ by the bound, unless `exact`.
pub fn is_right<T: Sample>(found: T, expected: &Expected, exact: bool) -> bool {
    if exact || !expected.sequential.is_finite() {
        comparable_bits(found) == comparable_bits(T::narrow(expected.sequential))
    } else {
        expected.interval.holds(found)
    }
}

/// Compares two results bit for bit; any NaN equals any other.
///
/// # Errors
/// `what` differs, where, and how often.
pub fn same_bits<T: Sample>(what: &str, left: &[T], right: &[T]) -> Result<(), String> {
    if left.len() != right.len() {
        let (left, right) = (left.len(), right.len());
        return Err(format!("{what}: {left} values against {right}"));
    }
    let mut different = left
        .iter()
        .zip(right)
        .enumerate()
        .filter(|(_, (left, right))| comparable_bits(**left) != comparable_bits(**right));
    match different.next() {
        None => Ok(()),
        Some((at, (l, r))) => Err(format!(
            "{what}: [{at}] is {l:?} against {r:?}; {} of {} differ",
            1 + different.count(),
            left.len()
        )),
    }
}

/// Compares two outcomes bit for bit.
///
/// # Errors
/// As [`same_bits`].
pub fn same_outcome<T: Sample + Debug>(
    what: &str,
    left: &Outcome<T>,
    right: &Outcome<T>,
) -> Result<(), String> {
    same_bits(&format!("{what}: h"), &left.h, &right.h)?;
    same_bits(
        &format!("{what}: final_state"),
        &left.final_state,
        &right.final_state,
    )
}

/// Compares two outcomes of a selective scan bit for bit.
///
/// # Errors
/// As [`same_bits`].
pub fn same_selective<T: Sample>(
    what: &str,
    left: &SelectiveOutcome<T>,
    right: &SelectiveOutcome<T>,
) -> Result<(), String> {
    same_bits(&format!("{what}: y"), &left.y, &right.y)?;
    same_bits(
        &format!("{what}: final_state"),
        &left.final_state,
        &right.final_state,
    )
}

/// `|found - exact| / |exact|` in the Frobenius norm, and the largest difference.
pub fn errors<T: Sample>(found: &[T], exact: &[f64]) -> (f64, f64) {
    let (mut square, mut norm, mut largest) = (0.0, 0.0, 0.0f64);
    for (&found, &exact) in found.iter().zip(exact) {
        let difference = f64::from(found.widen()) - exact;
        square += difference * difference;
        norm += exact * exact;
        // Not `max`, which would drop NaN.
        if !(difference.abs() <= largest) {
            largest = difference.abs();
        }
    }
    ((square / norm).sqrt(), largest)
}
