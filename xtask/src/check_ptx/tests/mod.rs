//! Each rule of check-ptx on a few lines of PTX, both ways.

mod assembler;
mod converge;
mod count;
mod fixture;
mod parse;
mod report;
mod snapshot;

use super::ptx::Module;

/// A file with one kernel `k` of this body, with parameters and registers declared.
fn kernel(body: &str) -> Module {
    module(&format!(
        "
.visible .entry k(
    .param .u64 k_param_0,
    .param .u32 k_param_1
)
.maxntid 128, 1, 1
{{
    .reg .pred %p<9>;
    .reg .b16 %rs<9>;
    .reg .b32 %r<20>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<20>;
    {body}
}}
"
    ))
}

/// A file with these functions.
fn module(functions: &str) -> Module {
    let text = format!(".version 7.8\n.target sm_90\n.address_size 64\n{functions}");
    super::parse::module(&text).unwrap()
}
