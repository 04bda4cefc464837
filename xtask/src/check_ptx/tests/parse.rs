//! The grammar, on the corners where a reader of PTX goes wrong.

use super::{kernel, module};
use crate::check_ptx::parse;

fn opcodes(body: &str) -> Vec<String> {
    let module = kernel(body);
    let blocks = &module.functions[0].blocks;
    let instructions = blocks.iter().flat_map(|b| &b.instructions);
    instructions.map(|i| i.text()).collect()
}

#[test]
fn a_header_with_everything() {
    let module = kernel("ret;");
    let function = &module.functions[0];
    assert_eq!(module.target, "sm_90");
    assert_eq!(function.name, "k");
    assert!(function.entry);
    assert_eq!(
        function.params.iter().collect::<Vec<_>>(),
        ["k_param_0", "k_param_1"]
    );
}

#[test]
fn declarations_around_functions() {
    let module = module(
        ".extern .shared .align 16 .b8 ferroseq_shared[];
         .global .align 4 .b8 table[4] = {1, 2, 3, 4};
         .global .align 1 .b8 text[3] = \"a;{\";
         .func (.param .b32 out) helper(.param .align 8 .b8 in[16]) .noreturn;
         .file 1 \"a.rs\"
         .section .debug_abbrev { .b8 1 .b8 2 }
         .func (.param .b32 out) body(.param .align 8 .b8 in[16]) { .loc 1 2 3\n ret; }",
    );
    assert_eq!(module.functions.len(), 1);
    assert_eq!(module.functions[0].name, "body");
    assert!(!module.functions[0].entry);
    assert!(module.functions[0].params.contains("in"));
    assert_eq!(module.noreturn.iter().collect::<Vec<_>>(), ["helper"]);
}

#[test]
fn comments_and_layout() {
    let body = "// bar.sync 0;\n/* bar.sync\n 0; */ mov.u32\t%r1, // here\n  %tid.x; trap; exit;";
    assert_eq!(opcodes(body), ["mov.u32 %r1, %tid.x", "trap", "exit"]);
    let module = kernel("\n/* two\nlines */\nret;");
    let ret = &module.functions[0].blocks[0].instructions[0];
    let before = kernel("ret;").functions[0].blocks[0].instructions[0].line;
    assert_eq!(ret.line, before + 3);
}

#[test]
fn braces_of_vectors_and_of_scopes() {
    let body = "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1]; { // callseq 0, 0
        .param .b32 out; call.uni (out), helper, (%r1, %r2); } ret;";
    let module = kernel(body);
    let instructions = &module.functions[0].blocks[0].instructions;
    assert_eq!(instructions.len(), 3);
    assert_eq!(instructions[0].operands.len(), 2);
    assert_eq!(instructions[0].split().0[0].registers.len(), 4);
    assert_eq!(instructions[1].callee(), Some("helper"));
}

#[test]
fn a_register_of_an_inner_scope_is_another() {
    let module = kernel(
        "mov.u32 %r1, 1; { .reg .b32 t; .reg .b32 %r1; mov.u32 %r1, 2; mov.u32 t, 3; }
        { .reg .b32 t; mov.u32 t, 4; } add.s32 %r2, %r1, 1; ret;",
    );
    let registers = &module.functions[0].registers;
    assert_eq!(registers.iter().filter(|r| *r == "t").count(), 2);
    let last = &module.functions[0].blocks[0].instructions[4];
    assert_eq!(last.text(), "add.s32 %r2, 1, 1");
}

#[test]
fn operands() {
    let module = kernel(
        "shfl.sync.up.b32 %r1|%p1, %r2, 0x1f, -1, 4294967295U; @!%p2 st.shared.u32 [%r3+8], 0f3F800000; ret;",
    );
    let [shuffle, store, _] = &module.functions[0].blocks[0].instructions[..] else {
        panic!("three instructions")
    };
    let immediates: Vec<_> = shuffle.operands.iter().map(|o| o.immediate()).collect();
    assert_eq!(
        immediates,
        [None, None, Some(31), Some(-1), Some(4_294_967_295)]
    );
    assert_eq!(shuffle.split().0[0].registers.len(), 2);
    assert!(store.guard.is_some());
    assert_eq!(store.split().0.len(), 0);
    assert_eq!(store.operands[1].immediate(), None);
}

#[test]
fn blocks_end_at_labels_and_branches() {
    let module = kernel("mov.u32 %r1, 1; $A: $B: mov.u32 %r2, 2; @%p1 bra $A; ret; $C: trap;");
    let blocks = &module.functions[0].blocks;
    let sizes: Vec<_> = blocks.iter().map(|b| b.instructions.len()).collect();
    assert_eq!(sizes, [1, 2, 1, 1]);
    assert_eq!(blocks[1].labels, ["$A", "$B"]);
}

#[test]
fn local_arrays() {
    let module = kernel(".local .align 8 .b8 __local_depot0[24]; .local .b32 x[2][3]; ret;");
    assert_eq!(module.functions[0].local_bytes, 48);
}

#[test]
fn constants_stand_in_for_registers_set_once() {
    let body = "mov.b32 %r1, -1; mov.b32 %r2, 1; @%p1 mov.b32 %r2, 2; add.s32 %r3, %r1, %r2; ret;";
    assert_eq!(opcodes(body)[3], "add.s32 %r3, -1, %r2");
}

#[test]
fn a_read_sees_the_writes_that_reach_it() {
    // For each read of %r1 in an `add`: 1 if one write reaches it, else the merged number.
    let seen = |body: &str| -> Vec<usize> {
        let module = kernel(body);
        let function = &module.functions[0];
        let instructions = function.blocks.iter().flat_map(|b| &b.instructions);
        let reads = instructions.filter(|i| i.root() == "add");
        reads
            .filter_map(|i| {
                let register = i.operands[1].registers.first()?;
                let merge = function.merges.iter().find(|m| m.into == *register);
                Some(merge.map_or(1, |m| m.from.len()))
            })
            .collect()
    };
    let read = "add.s32 %r3, %r1, 1;";
    let two = format!("mov.u32 %r1, %tid.x; {read} mov.u32 %r1, %ctaid.x; {read} ret;");
    assert_eq!(seen(&two), [1, 1]);
    let join = format!("mov.u32 %r1, %tid.x; @%p1 bra $J; mov.u32 %r1, %ctaid.x; $J: {read} ret;");
    assert_eq!(seen(&join), [2]);
    let guarded = format!("mov.u32 %r1, %tid.x; @%p1 mov.u32 %r1, %ctaid.x; {read} ret;");
    assert_eq!(seen(&guarded), [2]);
    let around = format!(
        "mov.u32 %r1, %tid.x; {read} $L: {read} mov.u32 %r1, %r3; @%p1 bra $L; {read} ret;"
    );
    assert_eq!(seen(&around), [1, 2, 1]);
}

#[test]
fn what_is_no_ptx_is_refused_with_its_line() {
    for (text, words) in [
        ("", "no .target"),
        (
            ".target sm_90\n.entry k() {\n ret }",
            "line 3: `ret` lacks a `;`",
        ),
        (".target sm_90\n.entry k() {\n ret;", "ends inside a body"),
        (
            ".target sm_90\n.entry k() { }\n}",
            "line 3: a `}` with nothing open",
        ),
        (
            ".target sm_90\n.entry k() {\n @%p1 bra $A;\n }",
            "line 3: `%p1` is not declared",
        ),
        (
            ".target sm_90\n$A: .entry k() { }",
            "line 2: a label outside a function",
        ),
        (
            ".target sm_90\n.entry k() {\n bra $X;\n }",
            "line 3: no label `$X` in `k`",
        ),
        ("ELF", "`ELF` has no end"),
    ] {
        let error = format!("{:#}", parse::module(text).unwrap_err());
        assert!(error.contains(words), "{text}: {error}");
    }
}
