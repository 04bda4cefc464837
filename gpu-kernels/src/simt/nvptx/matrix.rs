//! Matrix products of a warp.
//!
//! Assembly, which LLVM does not know to be convergent: it is `volatile` (no `pure`), so
//! that it is neither sunk nor merged, and `check-ptx` fails where it could be reached by
//! part of a warp.

use core::arch::asm;

macro_rules! multiply {
    ($($name:ident = $shape:literal)*) => { $(
        #[inline(always)]
        pub fn $name(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
            let [mut d0, mut d1, mut d2, mut d3] = c;
            // SAFETY: arithmetic on registers; the callers' warps are whole.
            unsafe {
                asm!(
                    concat!(
                        "mma.sync.aligned.", $shape,
                        " {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};"
                    ),
                    inout(reg32) d0, inout(reg32) d1, inout(reg32) d2, inout(reg32) d3,
                    in(reg32) a[0], in(reg32) a[1], in(reg32) a[2], in(reg32) a[3],
                    in(reg32) b[0], in(reg32) b[1],
                    options(nomem, nostack)
                );
            }
            [d0, d1, d2, d3]
        }
    )* };
}
multiply! {
    multiply_tf32 = "m16n8k8.row.col.f32.tf32.tf32.f32"
    multiply_bf16 = "m16n8k16.row.col.f32.bf16.bf16.f32"
    multiply_f16 = "m16n8k16.row.col.f32.f16.f16.f32"
}

#[inline(always)]
pub fn multiply_bf16_half(a: [u32; 2], b: u32, c: [f32; 4]) -> [f32; 4] {
    let [mut d0, mut d1, mut d2, mut d3] = c;
    // SAFETY: arithmetic on registers; the callers' warps are whole.
    unsafe {
        asm!(
            "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {{{0}, {1}, {2}, {3}}}, {{{4}, {5}}}, {{{6}}}, {{{0}, {1}, {2}, {3}}};",
            inout(reg32) d0, inout(reg32) d1, inout(reg32) d2, inout(reg32) d3,
            in(reg32) a[0], in(reg32) a[1],
            in(reg32) b,
            options(nomem, nostack)
        );
    }
    [d0, d1, d2, d3]
}
