//! The suite's own foundations: the oracles know the definitions, and the comparisons tell
//! right from wrong.

use ferroseq::ops::Route;
use ferroseq_tests::compare::all_right;
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::moe::{Choice, Scene};
use ferroseq_tests::oracle::moe::{combine, combine_backward, dispatch, dispatch_backward, route};

/// Three tokens, two entries each, three experts: entry 3 is past the capacity.
#[test]
fn by_hand() {
    let op = Route::new(3, 2, 3).capacity(Some(2)).alignment(2);
    let routed = route(&op, &[1, 0, 1, 1, 7, 0]);
    assert_eq!(routed.expert_offsets, [0, 2, 4, 4]);
    assert_eq!(routed.slot_idx, [0, 0, 1, -1, -1, 1]);
    assert_eq!(routed.row_idx, [2, 0, 3, -1, -1, 1]);
    assert_eq!(routed.source_of_row, [1, 5, 0, 2]);

    let packed = dispatch(&[1, 2, 3], 0, (5, 1), 2, &routed.row_idx);
    assert_eq!(packed, [1, 3, 1, 2, 0]);

    let weights = [0.5, 2.0, 3.0, 9.0, 9.0, -1.0];
    let packed = [10f32, 20.0, 30.0, 40.0, 50.0];
    let out = combine(&packed, 1, 2, &routed.row_idx, Some(&weights));
    let out: Vec<f32> = out.iter().map(|value| value.sequential).collect();
    assert_eq!(out, [35.0, 120.0, -20.0]);

    let grad = [1f32, 10.0, 100.0];
    let gradients = combine_backward(&grad, &packed, (5, 1), 2, &routed.row_idx, Some(&weights));
    assert_eq!(gradients.packed, [2.0, -100.0, 0.5, 30.0, 0.0]);
    let by_weights: Vec<f32> = gradients.weights.iter().map(|w| w.sequential).collect();
    assert_eq!(by_weights, [30.0, 10.0, 400.0, 0.0, 0.0, 2000.0]);
}

/// The later entry stays, and the gradient goes to it alone.
#[test]
fn two_entries_on_one_row() {
    let rows = [0, 1, 0, -1];
    assert_eq!(dispatch(&[7, 8], 0, (2, 1), 2, &rows), [8, 7]);
    let grad = dispatch_backward(&[3f32, 5.0], 1, 2, &rows);
    let grad: Vec<f32> = grad.iter().map(|value| value.sequential).collect();
    assert_eq!(grad, [5.0, 3.0]);
}

/// Gradients are adjoint: `<combine(p, w), g> = <p, grad_p> = <w, grad_w>`, in float64 to
/// the last digits, since all of them are the same sum.
#[test]
fn gradients_are_adjoint() {
    let op = Route::new(20, 3, 5).capacity(Some(9)).alignment(2);
    let scene = Scene::new(op, Choice::Random, 3);
    let (width, rows) = (4, scene.rows());
    let mut inputs = Inputs::new(5);
    // Multiples of 1/8 below 4: every sum is exact in f32.
    let mut draw = |len: usize| -> Vec<f32> {
        let values: Vec<f32> = inputs.values(len);
        values
            .iter()
            .map(|value| (value * 8.0).round() / 8.0)
            .collect()
    };
    let (packed, grad, weights) = (draw(rows * width), draw(20 * width), draw(60));
    let row_idx = &scene.routed.row_idx;
    let inner = |left: &[f32], right: &[f32]| -> f64 {
        let products = left.iter().zip(right);
        products.map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
    };
    let values = |expected: &[ferroseq_tests::oracle::linear_scan::Expected]| -> Vec<f32> {
        expected.iter().map(|value| value.sequential).collect()
    };
    let out = values(&combine(&packed, width, 3, row_idx, Some(&weights)));
    let sizes = (rows, width);
    let gradients = combine_backward(&grad, &packed, sizes, 3, row_idx, Some(&weights));
    let loss = inner(&out, &grad);
    assert_eq!(loss, inner(&packed, &gradients.packed));
    assert_eq!(loss, inner(&weights, &values(&gradients.weights)));
    let hidden = draw(20 * width);
    let copies = dispatch(&hidden, 0.0, sizes, 3, row_idx);
    let back = values(&dispatch_backward(&packed, width, 3, row_idx));
    assert_eq!(inner(&copies, &packed), inner(&hidden, &back));
}

/// Mistakes that a kernel could make fall outside the bounds.
#[test]
fn mistakes_break_the_bounds() {
    let scene = Scene::new(Route::new(50, 4, 6), Choice::Random, 7);
    let mut inputs = Inputs::new(9);
    let packed: Vec<f32> = inputs.positive_values(scene.rows());
    let weights: Vec<f32> = inputs.positive_values(200);
    let row_idx = &scene.routed.row_idx;
    let truth = combine(&packed, 1, 4, row_idx, Some(&weights));
    let with = |row_idx: &[i32], weights: &[f32]| -> Vec<f32> {
        let out = combine(&packed, 1, 4, row_idx, Some(weights));
        out.iter().map(|value| value.sequential).collect()
    };
    all_right(&with(row_idx, &weights), &truth, true).unwrap();
    all_right(&with(row_idx, &weights), &truth, false).unwrap();
    let mut wrong_row = row_idx.clone();
    wrong_row[100] = row_idx[101];
    let mut left_out = row_idx.clone();
    left_out[77] = -1;
    let mut wrong_weight = weights.clone();
    wrong_weight[5] *= 1.0 + 1e-5;
    for (mistake, out) in [
        ("another row", with(&wrong_row, &weights)),
        ("an entry left out", with(&left_out, &weights)),
        ("a weight off by 1e-5", with(row_idx, &wrong_weight)),
    ] {
        assert!(all_right(&out, &truth, false).is_err(), "{mistake}");
        assert!(all_right(&out, &truth, true).is_err(), "{mistake}, exactly");
    }
}
