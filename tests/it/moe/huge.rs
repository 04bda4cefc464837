//! More packed elements than a 32-bit index counts. Needs about 15 GB of host memory and
//! 6 GB on the device, so it runs only when asked for, with `FERROSEQ_HUGE=1`.

use super::failed;
use crate::on_every_device;
use ferroseq::ops::{Combine, Dispatch, Route};
use ferroseq_tests::Sample;
use ferroseq_tests::devices::skipped;
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::moe::{Choice, Scene};
use half::bf16;

#[test]
fn more_than_2_to_the_31_elements() {
    if std::env::var("FERROSEQ_HUGE").as_deref() != Ok("1") {
        return skipped(
            "more than 2^31 elements of MoE (15 GB of memory; FERROSEQ_HUGE=1 runs it)",
        );
    }
    // T * K * H is a little more than 2^31.
    let (tokens, top_k, experts, hidden) = (37_501, 8, 256, 7168);
    let scene = Scene::new(Route::new(tokens, top_k, experts), Choice::Random, 107);
    let rows = scene.rows();
    assert!(rows * hidden > 1 << 31);
    // A prime period: no two rows are the same.
    let period: Vec<bf16> = Inputs::new(109).values(1_000_003);
    let tokens_of = |token: usize| period.iter().cycle().skip(token * hidden % 1_000_003);
    let values: Vec<bf16> = period
        .iter()
        .cycle()
        .take(tokens * hidden)
        .copied()
        .collect();
    on_every_device(|device| {
        if !device.cases.large {
            return Ok(());
        }
        let device = &device.device;
        let plan = failed(&scene.op, scene.plan(device))?;
        let op = Dispatch {
            tokens,
            top_k,
            experts,
            hidden,
            rows,
        };
        let uploaded = failed(&op, device.upload(&values))?;
        let packed = failed(&op, op.run(device, &uploaded, &plan))?;
        drop(uploaded);
        let host = failed(&op, packed.to_vec())?;
        for (row, &source) in scene.routed.source_of_row.iter().enumerate() {
            let token = source as usize / top_k;
            let found = &host[row * hidden..][..hidden];
            if !found.iter().eq(tokens_of(token).take(hidden)) {
                return Err(format!("{device}: row {row} is not token {token}"));
            }
        }
        drop(host);
        // Eight equal rows sum to eight times each of them, exactly.
        let combine = Combine {
            tokens,
            top_k,
            experts,
            hidden,
            rows,
        };
        let out = failed(&op, combine.run(device, &packed, &plan, None))?;
        let out = failed(&op, out.to_vec())?;
        let right = |(out, value): (&bf16, &bf16)| out.widen() == 8.0 * value.widen();
        match out.iter().zip(&values).position(|pair| !right(pair)) {
            None => Ok(()),
            Some(at) => Err(format!("{device}: out[{at}] is {:?}", out[at])),
        }
    });
}
