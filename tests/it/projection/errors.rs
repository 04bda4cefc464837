//! Wrong arguments: the right error, before any output is touched.

use super::PROJECTION;
use ferroseq::ops::{Activation, Projection, ProjectionPart};
use ferroseq::{Buffer, Device, Error};

/// What each output holds before the run, and still must hold after an error.
const UNTOUCHED: f32 = 42.0;

/// `[rows, in] = [3, 4]` by weights of 5 and 2 outputs; one buffer wrong.
fn attempt(
    device: &Device,
    op: Projection,
    wrong: Option<(&str, usize)>,
    foreign: Option<(&str, &Device)>,
) -> Result<(), Error> {
    let buffer = |name: &str, len: usize| -> Result<Buffer<f32>, Error> {
        let len = match wrong {
            Some((wrong, found)) if wrong == name => found,
            _ => len,
        };
        let device = match foreign {
            Some((foreign, device)) if foreign == name => device,
            _ => device,
        };
        device.upload(&vec![UNTOUCHED; len])
    };
    let x = buffer("x", 12)?;
    let (first, second) = (buffer("first", 20)?, buffer("weight", 8)?);
    let bias = buffer("bias", 2)?;
    let (mut out, mut other) = (buffer("other", 15)?, buffer("out", 6)?);
    let result = op.run(
        device,
        &x,
        &mut [
            ProjectionPart {
                outputs: 5,
                weight: &first,
                bias: None,
                activation: Activation::Identity,
                out: &mut out,
            },
            ProjectionPart {
                outputs: 2,
                weight: &second,
                bias: Some(&bias),
                activation: Activation::Softplus,
                out: &mut other,
            },
        ],
    );
    if result.is_err() {
        for values in [out.to_vec()?, other.to_vec()?] {
            assert!(values.iter().all(|&value| value == UNTOUCHED), "{values:?}");
        }
    }
    result
}

const RIGHT: Projection = Projection::new(3, 4);

#[test]
fn lengths() {
    crate::on_devices(PROJECTION, |device| {
        attempt(&device.device, RIGHT, None, None).expect("right");
        for (name, right, shape) in [
            ("x", 12, "[rows, in] = [3, 4]"),
            ("weight", 8, "[out, in] = [2, 4]"),
            ("bias", 2, "[out] = [2]"),
            ("out", 6, "[rows, out] = [3, 2]"),
        ] {
            for found in [0, right - 1, right + 1] {
                let wrong = Some((name, found));
                let error = attempt(&device.device, RIGHT, wrong, None).expect_err("wrong");
                assert_eq!(
                    error.to_string(),
                    format!(
                        "projection: `{name}` holds {found} elements, expected {right} ({shape})"
                    )
                );
            }
        }
        Ok(())
    });
}

#[test]
fn sizes_past_all_memory() {
    crate::on_devices(PROJECTION, |device| {
        let op = Projection::new(usize::MAX / 2, 4);
        let error = attempt(&device.device, op, None, None).expect_err("too large");
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        Ok(())
    });
}

#[test]
fn every_buffer_must_live_on_the_device() {
    let elsewhere = Device::emulated();
    crate::on_devices(PROJECTION, |device| {
        for name in ["x", "weight", "bias", "out"] {
            let foreign = Some((name, &elsewhere));
            let error = attempt(&device.device, RIGHT, None, foreign).expect_err("elsewhere");
            let message = error.to_string();
            let expected = format!("projection: `{name}` lives on emulated");
            assert!(message.starts_with(&expected), "{message}");
        }
        Ok(())
    });
}
