//! A loop that is certainly unrolled.

/// Runs the body for `0..count` (at most 32, known at compile time) with the index a
/// literal each time, so that arrays indexed by it stay in registers.
macro_rules! unroll {
    ($count:expr, $index:ident => $body:block) => {
        unroll!(@each $count, $index => $body,
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
            16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
    (@each $count:expr, $index:ident => $body:block, $($n:literal)*) => {{
        const { assert!($count <= 32) };
        $(if $n < $count {
            let $index: usize = $n;
            $body
        })*
    }};
}

/// [`unroll!`] for at most 8 turns: a fraction of the code to compile where such loops are nested.
#[allow(unused_macros)] // Of some families.
macro_rules! unroll_few {
    ($count:expr, $index:ident => $body:block) => {{
        const { assert!($count <= 8) };
        unroll!(@each $count, $index => $body, 0 1 2 3 4 5 6 7)
    }};
}
