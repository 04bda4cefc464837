//! The convergence check: what is an error, and what looks like one and is not.

use super::{kernel, module};
use crate::check_ptx::converge::check;
use crate::check_ptx::ptx::Module;

const BAR: &str = "bar.sync 0;";
const SHFL: &str = "shfl.sync.down.b32 %r18, %r17, 1, 31, -1;";

/// The opcodes of the findings in the kernel `k`.
fn found(module: &Module) -> Vec<String> {
    let kernel = module.functions.iter().find(|f| f.name == "k").unwrap();
    let findings = check(module, kernel).unwrap();
    findings.into_iter().map(|f| f.instruction).collect()
}

/// A barrier and a shuffle behind a branch on `%p1`, as `setup` computes it.
fn behind_branch(setup: &str) -> [bool; 2] {
    [BAR, SHFL].map(|operation| {
        let body = format!("{setup} @%p1 bra $E; {operation} $E: ret;");
        !found(&kernel(&body)).is_empty()
    })
}

/// The condition is the same for the block: neither is an error.
#[track_caller]
fn block_uniform(setup: &str) {
    assert_eq!(behind_branch(setup), [false, false], "{setup}");
}

/// The condition is the same for a warp: the barrier is an error.
#[track_caller]
fn warp_uniform(setup: &str) {
    assert_eq!(behind_branch(setup), [true, false], "{setup}");
}

/// Lanes differ: both are errors.
#[track_caller]
fn divergent(setup: &str) {
    assert_eq!(behind_branch(setup), [true, true], "{setup}");
}

#[track_caller]
fn clean(body: &str) {
    assert_eq!(found(&kernel(body)), [""; 0], "{body}");
}

#[track_caller]
fn faulty(body: &str, opcodes: &[&str]) {
    assert_eq!(found(&kernel(body)), opcodes, "{body}");
}

#[test]
fn special_registers() {
    for (register, check) in [
        ("%tid.x", divergent as fn(&str)),
        ("%tid.y", divergent),
        ("%laneid", divergent),
        ("%lanemask_lt", divergent),
        ("%clock", divergent),
        ("%warpid", warp_uniform),
        ("%ctaid.x", block_uniform),
        ("%ctaid.y", block_uniform),
        ("%ntid.x", block_uniform),
        ("%nctaid.z", block_uniform),
    ] {
        check(&format!(
            "mov.u32 %r1, {register}; setp.eq.s32 %p1, %r1, 3;"
        ));
    }
}

#[test]
fn parts_of_the_thread_index() {
    let tid = |rest: &str| format!("mov.u32 %r1, %tid.x; {rest}");
    for warp in [
        "shr.u32 %r2, %r1, 5; setp.ne.s32 %p1, %r2, 0;",
        "shr.u32 %r2, %r1, 7; setp.ne.s32 %p1, %r2, 0;",
        "shr.u32 %r2, %r1, 3; shr.u32 %r3, %r2, 2; setp.ne.s32 %p1, %r3, 0;",
        "and.b32 %r2, %r1, -32; setp.ne.s32 %p1, %r2, 0;",
        "mov.u32 %r3, %ctaid.x; shl.b32 %r4, -32, %r3; and.b32 %r2, %r1, %r4; setp.ne.s32 %p1, %r2, 0;",
        "and.b32 %r2, %r1, 96; setp.ne.s32 %p1, %r2, 0;",
        "and.b32 %r2, 32, %r1; setp.ne.s32 %p1, %r2, 0;",
        "setp.lt.u32 %p1, %r1, 64;",
        "setp.ge.u32 %p1, %r1, 32;",
        "setp.gt.u32 %p1, %r1, 31;",
        "setp.le.u32 %p1, %r1, 95;",
        "setp.gt.u32 %p1, 64, %r1;",
        "setp.lt.u32 %p1, 31, %r1;",
        "cvt.u64.u32 %rd1, %r1; shr.u64 %rd2, %rd1, 5; setp.ne.s64 %p1, %rd2, 0;",
        "div.u32 %r2, %r1, 96; setp.ne.s32 %p1, %r2, 0;",
        "bfe.u32 %r2, %r1, 5, 2; setp.ne.s32 %p1, %r2, 0;",
        "shl.b32 %r2, %r1, 2; shr.u32 %r3, %r2, 7; setp.ne.s32 %p1, %r3, 0;",
        "mul.lo.s32 %r2, %r1, 4; setp.lt.u32 %p1, %r2, 256;",
        "mov.u32 %r4, %ctaid.x; shl.b32 %r5, %r4, 7; or.b32 %r6, %r5, %r1; setp.lt.u32 %p1, %r6, 4096;",
        "mov.u32 %r4, %ctaid.x; mad.lo.s32 %r6, %r4, 128, %r1; shr.u32 %r7, %r6, 5; setp.eq.s32 %p1, %r7, 3;",
        "mov.u32 %r4, %ctaid.x; mul.wide.u32 %rd1, %r4, 128; cvt.u64.u32 %rd2, %r1; add.s64 %rd3, %rd1, %rd2; setp.gt.u64 %p1, %rd3, 4095;",
        "add.s32 %r2, %r1, -32; setp.lt.s32 %p1, %r2, 0;",
        "and.b32 %r2, %r1, 63; setp.lt.u32 %p1, %r2, 32;",
    ] {
        warp_uniform(&tid(warp));
    }
    for lanes in [
        "setp.ne.s32 %p1, %r1, 0;",
        "setp.lt.u32 %p1, %r1, 40;",
        "setp.gt.u32 %p1, %r1, 32;",
        "setp.le.u32 %p1, %r1, 32;",
        "shr.u32 %r2, %r1, 4; setp.ne.s32 %p1, %r2, 0;",
        "and.b32 %r2, %r1, 31; setp.ne.s32 %p1, %r2, 0;",
        "and.b32 %r2, %r1, 48; setp.ne.s32 %p1, %r2, 0;",
        "div.u32 %r2, %r1, 48; setp.ne.s32 %p1, %r2, 0;",
        "bfe.u32 %r2, %r1, 4, 2; setp.ne.s32 %p1, %r2, 0;",
        "add.s32 %r2, %r1, 1; setp.lt.u32 %p1, %r2, 64;",
        "sub.s32 %r2, 64, %r1; setp.gt.s32 %p1, %r2, 0;",
        "mul.lo.s32 %r2, %r1, 3; setp.lt.u32 %p1, %r2, 96;",
        "mov.u32 %r4, %ctaid.x; mad.lo.s32 %r6, %r4, 100, %r1; setp.lt.u32 %p1, %r6, 4096;",
        "ld.param.u32 %r4, [k_param_1]; setp.lt.u32 %p1, %r1, %r4;",
        "ld.param.u32 %r4, [k_param_1]; shl.b32 %r5, %r4, 5; setp.le.u32 %p1, %r1, %r5;",
        "cvt.rn.f32.u32 %f1, %r1; setp.lt.f32 %p1, %f1, 0f42800000;",
        "mov.b64 %rd1, {%r1, %r1}; shr.u64 %rd2, %rd1, 5; setp.ne.s64 %p1, %rd2, 0;",
    ] {
        divergent(&tid(lanes));
    }
    warp_uniform(&tid(
        "ld.param.u32 %r4, [k_param_1]; shl.b32 %r5, %r4, 5; setp.lt.u32 %p1, %r1, %r5;",
    ));
}

#[test]
fn loads() {
    let address = "mov.u32 %r1, %tid.x; cvt.u64.u32 %rd1, %r1; ld.param.u64 %rd2, [k_param_0];
        add.s64 %rd3, %rd2, %rd1;";
    let load = |load: &str| format!("{address} {load} setp.eq.s32 %p1, %r2, 0;");
    block_uniform(&load("ld.param.u32 %r2, [k_param_1];"));
    block_uniform(&load("ld.global.u32 %r2, [%rd2];"));
    block_uniform(&load("ld.global.nc.L1::no_allocate.u32 %r2, [%rd2+4];"));
    block_uniform(&load("ld.shared.v2.u32 {%r3, %r2}, [ferroseq_shared+16];"));
    warp_uniform(&load("and.b32 %r5, %r1, -32; ld.shared.u32 %r2, [%r5];"));
    divergent(&load("ld.global.u32 %r2, [%rd3];"));
    divergent(&load("ld.shared.u32 %r2, [%r1];"));
    divergent(&load("ld.acquire.gpu.global.u32 %r2, [%rd2];"));
    divergent(&load("ld.relaxed.gpu.global.u32 %r2, [%rd2];"));
    divergent(&load("ld.volatile.shared.u32 %r2, [ferroseq_shared];"));
    divergent(&load("ld.u32 %r2, [%rd2];"));
    divergent(&load("ld.local.u32 %r2, [%rd2];"));
    divergent(&load("atom.relaxed.gpu.global.add.u32 %r2, [%rd2], 1;"));
}

#[test]
fn exchanges_between_lanes() {
    let lane = |rest: &str| {
        format!("mov.u32 %r1, %tid.x; setp.lt.u32 %p2, %r1, 5; {rest} setp.eq.s32 %p1, %r2, 0;")
    };
    warp_uniform(&lane("vote.sync.ballot.b32 %r2, %p2, -1;"));
    warp_uniform(&lane(
        "mov.b32 %r9, -1; vote.sync.ballot.b32 %r2, %p2, %r9;",
    ));
    warp_uniform(&lane("redux.sync.add.u32 %r2, %r1, 0xffffffff;"));
    warp_uniform(&lane("shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;"));
    warp_uniform(&lane("match.all.sync.b32 %r2|%p3, %r1, -1;"));
    divergent(&lane("vote.sync.ballot.b32 %r2, %p2, 65535;"));
    divergent(&lane("shfl.sync.idx.b32 %r2, %r1, 0, 7183, -1;"));
    divergent(&lane("shfl.sync.idx.b32 %r2, %r1, %r1, 31, -1;"));
    divergent(&lane("shfl.sync.idx.b32 %r2, %r1, 0, 31, 65535;"));
    divergent(&lane("shfl.sync.up.b32 %r2, %r1, 1, 0, -1;"));
    divergent(&lane("match.any.sync.b32 %r2, %r1, -1;"));
    divergent(&lane("activemask.b32 %r2;"));
    block_uniform(&lane("bar.red.popc.u32 %r2, 0, %p2;"));
}

#[test]
fn conditions_combined() {
    let two = "mov.u32 %r1, %tid.x; setp.lt.u32 %p2, %r1, 5; ld.param.u32 %r2, [k_param_1];
        setp.eq.s32 %p3, %r2, 0;";
    divergent(&format!("{two} and.pred %p1, %p2, %p3;"));
    divergent(&format!("{two} setp.eq.and.s32 %p1, %r2, 0, %p2;"));
    divergent(&format!(
        "{two} selp.b32 %r3, 1, 2, %p2; setp.eq.s32 %p1, %r3, 1;"
    ));
    block_uniform(&format!(
        "{two} selp.b32 %r3, 1, 2, %p3; setp.eq.s32 %p1, %r3, 1;"
    ));
    block_uniform(&format!("{two} not.pred %p1, %p3;"));
    // A register that nothing writes.
    divergent("setp.eq.s32 %p1, %r7, 0;");
}

#[test]
fn a_value_that_a_branch_decides() {
    let choose = |condition: &str| {
        format!(
            "{condition} mov.u32 %r5, 1; @%p2 bra $J; mov.u32 %r5, 2; $J:
             setp.eq.s32 %p1, %r5, 1;"
        )
    };
    block_uniform(&choose(
        "ld.param.u32 %r1, [k_param_1]; setp.eq.s32 %p2, %r1, 0;",
    ));
    warp_uniform(&choose("mov.u32 %r1, %tid.x; setp.lt.u32 %p2, %r1, 32;"));
    divergent(&choose("mov.u32 %r1, %tid.x; setp.lt.u32 %p2, %r1, 5;"));
    divergent(
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p2, %r1, 5; mov.u32 %r5, 1; @%p2 mov.u32 %r5, 2;
         setp.eq.s32 %p1, %r5, 1;",
    );
}

#[test]
fn one_value_computed_in_both_arms() {
    let arms = |one: &str, other: &str| {
        format!(
            "mov.u32 %r1, %tid.x; setp.eq.s32 %p2, %r1, 0; mov.u32 %r2, %ctaid.x; \
             @%p2 bra $A; {one} bra $B; $A: {other} $B:"
        )
    };
    let test =
        |r: u32, mask: u32| format!("and.b32 %r{r}, %r2, {mask}; setp.eq.s32 %p1, %r{r}, 0;");
    block_uniform(&arms(&test(3, 7), &test(4, 7)));
    divergent(&arms(&test(3, 7), &test(4, 3)));
    // A copy of it.
    let (early, late) = (
        "add.s32 %r5, %r2, 1; mov.u32 %r6, %r5;",
        "add.s32 %r6, %r2, 1;",
    );
    let then = "setp.eq.s32 %p1, %r6, 0;";
    block_uniform(&(arms(early, late) + then));
    // What each lane loads is each lane's own.
    let load = "ld.global.u32 %r6, [%rd1];";
    divergent(&(format!("cvt.u64.u32 %rd1, %r1; {}", arms(load, load)) + then));
}

#[test]
fn a_register_that_equals_another_behind_their_comparison() {
    // The warps take turns; the optimiser writes `warp + 1` for `turn + 1` in a warp's turn.
    let turns = |branch: &str, own: &str, other: &str| {
        format!(
            "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mov.u32 %r3, 0; \
             $L: setp.ne.s32 %p2, %r2, %r3; {branch} bra $N; {own} bra $J; \
             $N: {other} $J: bar.sync 0; setp.lt.u32 %p1, %r3, 8; @%p1 bra $L; ret;"
        )
    };
    let next = "add.s32 %r3, %r3, 1;";
    clean(&turns("@%p2", "add.s32 %r3, %r2, 1;", next));
    clean(&turns(
        "@%p2",
        "shr.u32 %r4, %r1, 5; add.s32 %r3, %r4, 1;",
        next,
    ));
    // In the turns of all other warps.
    faulty(&turns("@!%p2", "add.s32 %r3, %r2, 1;", next), &["bar.sync"]);
    faulty(&turns("@%p2", "add.s32 %r3, %r2, 2;", next), &["bar.sync"]);
    // No longer the value that was compared.
    let rounds = "add.s32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, %r1; @%p3 bra $N;";
    faulty(
        &turns("@%p2", "add.s32 %r3, %r2, 1;", rounds),
        &["bar.sync"],
    );
}

#[test]
fn before_and_behind_a_branch() {
    let tid = "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 5;";
    clean(&format!(
        "{tid} bar.sync 0; @%p1 bra $E; st.shared.u32 [%r1], 0; $E: bar.sync 0; ret;"
    ));
    // Both arms have one: still not the same barrier.
    faulty(
        &format!("{tid} @%p1 bra $A; bar.sync 0; bra $E; $A: bar.sync 0; $E: ret;"),
        &["bar.sync", "bar.sync"],
    );
    // A uniform branch inside a divergent one.
    faulty(
        &format!(
            "{tid} ld.param.u32 %r2, [k_param_1]; setp.eq.s32 %p2, %r2, 0;
             @%p1 bra $E; @%p2 bra $E; bar.sync 0; $E: ret;"
        ),
        &["bar.sync"],
    );
    faulty(&format!("{tid} @!%p1 bar.sync 0; ret;"), &["bar.sync"]);
}

#[test]
fn ended_threads() {
    let on = |index: &str, bound: u32| {
        format!("mov.u32 %r1, {index}; setp.ge.u32 %p1, %r1, {bound}; @%p1 ret;")
    };
    faulty(
        &format!("{} {BAR} {SHFL} ret;", on("%tid.x", 5)),
        &["bar.sync", "shfl.sync.down.b32"],
    );
    faulty(
        &format!("{} {BAR} {SHFL} ret;", on("%tid.x", 64)),
        &["bar.sync"],
    );
    clean(&format!("{} {BAR} {SHFL} ret;", on("%ctaid.x", 5)));
}

#[test]
fn a_path_that_ends_the_launch_keeps_nobody_waiting() {
    let tid = "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 5;";
    clean(&format!("{tid} @%p1 bra $T; bar.sync 0; ret; $T: trap;"));
    clean(&format!(
        "{tid} @%p1 bra $T; bar.sync 0; ret; $T: mov.u32 %r2, 1; trap; $L: bra $L;"
    ));
    faulty(
        &format!("{tid} @%p1 bra $T; ret; $T: bar.sync 0; trap;"),
        &["bar.sync"],
    );
    let with = |attribute: &str| {
        found(&module(&format!(
            ".func panic() {attribute};
             .visible .entry k() {{ .reg .pred %p<3>; .reg .b32 %r<3>;
             {tid} @%p1 bra $T; bar.sync 0; ret; $T: call.uni panic, (); exit; }}"
        )))
    };
    assert_eq!(with(".noreturn"), [""; 0]);
    assert_eq!(with(""), ["bar.sync"]);
}

#[test]
fn loops() {
    let rounds = |count: &str, body: &str| {
        format!(
            "mov.u32 %r1, %tid.x; ld.param.u32 %r2, [k_param_1]; setp.lt.u32 %p2, %r1, 5;
             mov.u32 %r3, 0; $L: {body} add.s32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, {count};
             @%p1 bra $L; ret;"
        )
    };
    clean(&rounds("%r2", BAR));
    clean(&rounds(
        "%r2",
        &format!("@%p2 bra $N; st.shared.u32 [%r1], 0; $N: {BAR} {SHFL}"),
    ));
    faulty(
        &rounds("%r2", "@%p2 bra $N; bar.sync 0; $N:"),
        &["bar.sync"],
    );
    faulty(
        &rounds("%r1", &format!("{BAR} {SHFL}")),
        &["bar.sync", "shfl.sync.down.b32"],
    );
    // The round in which a thread continues early.
    clean(
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p2, %r1, 5; ld.param.u32 %r2, [k_param_1];
         mov.u32 %r3, 0; $H: setp.ge.u32 %p1, %r3, %r2; @%p1 bra $E; bar.sync 0;
         add.s32 %r3, %r3, 1; @%p2 bra $H; st.shared.u32 [%r1], %r3; bra $H; $E: ret;",
    );
    // Some threads leave from the middle.
    faulty(
        &rounds("%r2", &format!("@%p2 bra $X; {BAR}")).replace("ret;", "$X: ret;"),
        &["bar.sync"],
    );
    // Once all have left, all are there again.
    clean(&rounds("%r1", "").replace("ret;", "bar.sync 0; ret;"));
}

#[test]
fn a_value_that_leaves_a_loop() {
    let leave = |count: &str, then: &str| {
        format!(
            "mov.u32 %r1, %tid.x; ld.param.u32 %r2, [k_param_1]; mov.u32 %r3, 0; mov.u32 %r4, 0;
             $L: add.s32 %r3, %r3, 1; ld.param.u32 %r5, [k_param_1];
             setp.lt.u32 %p2, %r3, {count}; @%p2 bra $L; {then}"
        )
    };
    divergent(&leave("%r1", "setp.eq.s32 %p1, %r3, 1;"));
    block_uniform(&leave("%r2", "setp.eq.s32 %p1, %r3, 1;"));
    // Read in the loop, but the same in every round.
    block_uniform(&leave("%r1", "setp.eq.s32 %p1, %r5, 1;"));
}

#[test]
fn a_loop_without_an_end() {
    clean("$L: bar.sync 0; bra $L;");
    faulty(
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5; @%p1 bra $L; ret; $L: bar.sync 0; bra $L;",
        &["bar.sync"],
    );
}

#[test]
fn barriers_of_some_warps() {
    let first = "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 64; @%p1 bra $E;";
    clean(&format!("{first} bar.sync 1, 64; $E: ret;"));
    faulty(&format!("{first} bar.sync 1; $E: ret;"), &["bar.sync"]);
    faulty(
        &format!("{first} barrier.cta.sync.aligned.all 0; $E: ret;"),
        &["barrier.cta.sync.aligned.all"],
    );
    let some = first.replace("64", "40");
    faulty(&format!("{some} bar.sync 1, 64; $E: ret;"), &["bar.sync"]);
}

#[test]
fn every_convergent_instruction() {
    for operation in [
        "bar.warp.sync -1;",
        "shfl.sync.bfly.b32 %r2|%p2, %r1, 1, 31, -1;",
        "vote.sync.any.pred %p2, %p1, -1;",
        "match.any.sync.b32 %r2, %r1, -1;",
        "redux.sync.min.u32 %r2, %r1, -1;",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f2};",
    ] {
        let opcode = operation.split(' ').next().unwrap();
        let tid = "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 5; @%p1 bra $E;";
        faulty(&format!("{tid} {operation} $E: ret;"), &[opcode]);
        clean(&format!(
            "{} {operation} $E: ret;",
            tid.replace(", 5", ", 64")
        ));
    }
    // These are each thread's own.
    clean(
        "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 5; @%p1 bra $E; fence.acq_rel.gpu;
         cp.async.wait_group 0; atom.global.add.u32 %r2, [%rd1], 1; $E: ret;",
    );
}

#[test]
fn device_functions() {
    let call = |body: &str| {
        found(&module(&format!(
            ".func helper() {{ {body} ret; }}
             .func outer() {{ call.uni helper, (); ret; }}
             .visible .entry k() {{ .reg .pred %p<3>; .reg .b32 %r<3>; mov.u32 %r1, %tid.x;
             setp.ge.u32 %p1, %r1, 5; @%p1 bra $E; call.uni outer, (); $E: ret; }}"
        )))
    };
    assert_eq!(call("bar.sync 0;"), ["call.uni"]);
    assert_eq!(call("fence.acq_rel.gpu;"), [""; 0]);
    // Arguments may differ from thread to thread.
    let callee = module(
        ".func k(.param .b32 k_param_0) { .reg .pred %p<3>; .reg .b32 %r<3>;
         ld.param.u32 %r1, [k_param_0]; setp.eq.s32 %p1, %r1, 0; @%p1 bra $E; bar.sync 0; $E: ret; }",
    );
    assert_eq!(found(&callee), ["bar.sync"]);
}

#[test]
fn branch_tables() {
    let jump = |index: &str| {
        format!(
            "mov.u32 %r1, {index}; and.b32 %r2, %r1, 1; $T: .branchtargets $A, $B;
             brx.idx %r2, $T; $A: bar.sync 0; bra $E; $B: mov.u32 %r3, 1; $E: bar.sync 0; ret;"
        )
    };
    clean(&jump("%ctaid.x"));
    faulty(&jump("%tid.x"), &["bar.sync"]);
}

#[test]
fn messages_name_the_branch() {
    let module =
        kernel("\nmov.u32 %r1, %tid.x;\nsetp.lt.u32 %p4, %r1, 5;\n@%p4 ret;\nbar.sync 0;\nret;");
    let finding = check(&module, &module.functions[0]).unwrap().remove(0);
    assert_eq!(
        finding.message,
        format!(
            "not all threads of the warp reach `bar.sync 0`: some threads have ended, by the \
             return on %p4 in line {}",
            finding.line - 1
        )
    );
    assert!(!finding.excusable);
}

#[test]
fn a_merge_that_is_copied_on_two_paths() {
    // %r2 is one value for the block, 0 or 4; one thread takes another way to its copy.
    let head =
        "mov.u32 %r1, %tid.x; mov.u32 %r5, %ctaid.x; mov.u32 %r2, 0; setp.eq.s32 %p1, %r5, 7;
        @%p1 bra $A; mov.u32 %r2, 4; $A:";
    let copies =
        "setp.ne.s32 %p2, %r1, 0; mov.u32 %r3, %r2; @%p2 bra $C; st.global.u32 [%rd1], %r5;
        mov.u32 %r3, %r2; $C: setp.eq.s32 %p3, %r3, 4; @%p3 bra $E; bar.sync 0; $E: ret;";
    clean(&format!("{head} {copies}"));
    // Among them a constant, which the whole block takes.
    clean(&format!(
        "{head} mov.u32 %r3, 9; setp.eq.s32 %p4, %r5, 8; @%p4 bra $C; {copies}"
    ));
    // Written again between the copies: two values.
    let between = copies.replace("st.global.u32 [%rd1], %r5;", "add.u32 %r2, %r2, 1;");
    faulty(&format!("{head} {between}"), &["bar.sync"]);
}
