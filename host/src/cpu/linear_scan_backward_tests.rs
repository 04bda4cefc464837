//! The gradients of the linear scan on the CPU: bit for bit those of the definition, and close
//! to finite differences.

use crate::ops::{Layout, LinearScan, LinearScanBackward, LinearScanBackwardArgs, SequenceOffsets};
use crate::{Device, Element};
use half::bf16;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

struct Case<T> {
    op: LinearScan,
    starts: Vec<usize>,
    a: Vec<T>,
    h: Vec<T>,
    grad_h: Vec<T>,
    h0: Vec<f32>,
    grad_last: Vec<f32>,
}

impl<T: Element> Case<T> {
    fn new(op: LinearScan, starts: Vec<usize>) -> Self {
        let mut rng = SmallRng::seed_from_u64(11);
        let mut random = |n| (0..n).map(|_| rng.random_range(-1.0..1.0)).collect();
        let n = op.batch * op.length * op.channels;
        let states = op.batch * (starts.len() - 1) * op.channels;
        let round = |values: Vec<f32>| values.into_iter().map(T::from_f32).collect();
        Self {
            op,
            starts,
            a: round(random(n)),
            h: round(random(n)),
            grad_h: round(random(n)),
            h0: random(states),
            grad_last: random(states),
        }
    }

    /// The formulas of the descriptor's documentation, step by step.
    fn definition(&self) -> (Vec<T>, Vec<T>, Vec<f32>) {
        let op = &self.op;
        let (mut grad_a, mut grad_b) = (self.a.clone(), self.a.clone());
        let mut grad_h0 = self.h0.clone();
        let sequences = self.starts.len() - 1;
        for (column, grad_h0) in grad_h0.iter_mut().enumerate() {
            let (row, d) = (column / op.channels, column % op.channels);
            let (batch, s) = (row / sequences, row % sequences);
            let (start, end) = (self.starts[s], self.starts[s + 1]);
            let at = |step: usize| {
                let t = if op.reverse {
                    start + end - 1 - step
                } else {
                    step
                };
                match op.layout {
                    Layout::Bld => (batch * op.length + t) * op.channels + d,
                    Layout::Bdl => (batch * op.channels + d) * op.length + t,
                }
            };
            let mut g = self.grad_last[column];
            for step in (start..end).rev() {
                let gate = if step + 1 == end {
                    1.0
                } else {
                    self.a[at(step + 1)].to_f32()
                };
                g = gate.mul_add(g, self.grad_h[at(step)].to_f32());
                let before = if step == start {
                    self.h0[column]
                } else {
                    self.h[at(step - 1)].to_f32()
                };
                grad_b[at(step)] = T::from_f32(g);
                grad_a[at(step)] = T::from_f32(g * before);
            }
            let gate = if start == end {
                1.0
            } else {
                self.a[at(start)].to_f32()
            };
            *grad_h0 = gate * g;
        }
        (grad_a, grad_b, grad_h0)
    }

    fn check(&self, packed: bool, in_place: bool) {
        let device = Device::cpu();
        let up = |values: &[f32]| device.upload(values).unwrap();
        let offsets: Vec<i64> = self.starts.iter().map(|&s| s as i64).collect();
        let offsets = packed.then(|| SequenceOffsets::new(&device, &offsets).unwrap());
        let grad_h = device.upload(&self.grad_h).unwrap();
        let mut grad_a = device.alloc::<T>(self.a.len()).unwrap();
        let mut grad_b = device.upload(&self.grad_h).unwrap();
        let mut grad_h0 = device.alloc(self.h0.len()).unwrap();
        let args = LinearScanBackwardArgs {
            a: &device.upload(&self.a).unwrap(),
            h: &device.upload(&self.h).unwrap(),
            grad_h: (!in_place).then_some(&grad_h),
            grad_a: &mut grad_a,
            grad_b: &mut grad_b,
            h0: Some(&up(&self.h0)),
            grad_final_state: Some(&up(&self.grad_last)),
            grad_h0: Some(&mut grad_h0),
            offsets: offsets.as_ref(),
        };
        LinearScanBackward::new(self.op)
            .run_with(&device, args)
            .unwrap();
        let bytes = |v: &[T]| bytemuck::cast_slice::<T, u8>(v).to_vec();
        let expected = self.definition();
        assert!(
            bytes(&grad_a.to_vec().unwrap()) == bytes(&expected.0),
            "{:?}",
            self.op
        );
        assert!(
            bytes(&grad_b.to_vec().unwrap()) == bytes(&expected.1),
            "{:?}",
            self.op
        );
        assert_eq!(grad_h0.to_vec().unwrap(), expected.2, "{:?}", self.op);
    }
}

#[test]
fn is_the_definition_bit_for_bit() {
    for layout in [Layout::Bld, Layout::Bdl] {
        for reverse in [false, true] {
            for in_place in [false, true] {
                for [batch, length, channels] in [
                    [2, 5, 3],
                    [1, 300, 1],
                    [1, 130, 600],
                    [2, 257, 97],
                    [2, 0, 3],
                ] {
                    let op = LinearScan::new(batch, length, channels);
                    let op = op.layout(layout).reverse(reverse);
                    Case::<f32>::new(op, vec![0, length]).check(false, in_place);
                    Case::<bf16>::new(op, vec![0, length]).check(false, in_place);
                }
                let op = LinearScan::new(1, 700, 131).layout(layout).reverse(reverse);
                let starts = vec![0, 0, 3, 3, 203, 699, 700, 700];
                Case::<f32>::new(op, starts.clone()).check(true, in_place);
                Case::<bf16>::new(op, starts).check(true, in_place);
            }
        }
    }
}

/// The gradients are those of the scan: central differences of a loss over f32 states.
#[test]
fn agrees_with_finite_differences() {
    let device = Device::cpu();
    let op = LinearScan::new(1, 6, 2);
    let value = |i: usize| ((i * 37 % 17) as f32 / 17.0) - 0.5;
    let values = |from: usize| (0..12).map(|i| value(i + from)).collect::<Vec<f32>>();
    let (a, b, weights) = (values(0), values(40), values(90));
    let loss = |a: &[f32], b: &[f32]| -> f64 {
        let mut h = device.alloc::<f32>(12).unwrap();
        let (a, b) = (device.upload(a).unwrap(), device.upload(b).unwrap());
        op.run(&device, &a, &b, &mut h).unwrap();
        let terms = h.to_vec().unwrap().into_iter().zip(&weights);
        terms.map(|(h, w)| f64::from(h) * f64::from(*w)).sum()
    };
    let mut h = device.alloc::<f32>(12).unwrap();
    let (a_buffer, b_buffer) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    op.run(&device, &a_buffer, &b_buffer, &mut h).unwrap();
    let mut grad_a = device.alloc::<f32>(12).unwrap();
    let mut grad_b = device.upload(&weights).unwrap();
    let args = LinearScanBackwardArgs {
        a: &a_buffer,
        h: &h,
        grad_h: None,
        grad_a: &mut grad_a,
        grad_b: &mut grad_b,
        h0: None,
        grad_final_state: None,
        grad_h0: None,
        offsets: None,
    };
    LinearScanBackward::new(op).run_with(&device, args).unwrap();
    let (grad_a, grad_b) = (grad_a.to_vec().unwrap(), grad_b.to_vec().unwrap());
    // The loss is linear in each single element, so the step may be large.
    for i in 0..12 {
        let moved = |values: &[f32], by: f32| {
            let mut values = values.to_vec();
            values[i] += by;
            values
        };
        let by_a = loss(&moved(&a, 0.5), &b) - loss(&moved(&a, -0.5), &b);
        let by_b = loss(&a, &moved(&b, 0.5)) - loss(&a, &moved(&b, -0.5));
        assert!((by_a - f64::from(grad_a[i])).abs() < 1e-5, "a[{i}]: {by_a}");
        assert!((by_b - f64::from(grad_b[i])).abs() < 1e-5, "b[{i}]: {by_b}");
    }
}
