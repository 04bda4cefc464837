//! What is counted, and under which name.

use super::{kernel, module};
use crate::check_ptx::count;

#[test]
fn kinds() {
    for (instruction, kind) in [
        ("bar.sync 0", Some("barrier")),
        ("barrier.cta.sync.aligned.all 0", Some("barrier")),
        ("bar.red.popc.u32 %r1, 0, %p1", Some("barrier")),
        ("bar.warp.sync -1", Some("warp_sync")),
        ("shfl.sync.up.b32 %r1, %r2, 1, 0, -1", Some("shuffle")),
        ("vote.sync.ballot.b32 %r1, %p1, -1", Some("vote")),
        ("match.any.sync.b32 %r1, %r2, -1", Some("match")),
        ("redux.sync.add.u32 %r1, %r2, -1", Some("redux")),
        (
            "atom.relaxed.gpu.global.add.u32 %r1, [%rd1], 1",
            Some("atomic"),
        ),
        ("red.global.add.u32 [%rd1], 1", Some("atomic")),
        ("fence.acq_rel.gpu", Some("fence")),
        ("membar.gl", Some("fence")),
        (
            "cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16",
            Some("async_copy"),
        ),
        ("cp.async.commit_group", Some("async_group")),
        ("cp.async.wait_group 2", Some("async_group")),
        (
            "cp.async.mbarrier.arrive.shared.b64 [%r1]",
            Some("mbarrier"),
        ),
        ("mbarrier.init.shared.b64 [%r1], 1", Some("mbarrier")),
        ("nanosleep.u32 20", Some("nanosleep")),
        ("ex2.approx.ftz.f32 %f1, %f2", Some("ex2")),
        ("div.u64 %rd1, %rd2, %rd3", Some("div64")),
        ("rem.s64 %rd1, %rd2, %rd3", Some("div64")),
        ("div.u32 %r1, %r2, %r3", None),
        ("ld.param.u64 %rd1, [k_param_0]", None),
        (
            "ld.global.nc.L1::no_allocate.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1]",
            Some("load.global.v4"),
        ),
        ("ld.acquire.gpu.global.u32 %r1, [%rd1]", Some("load.global")),
        (
            "ld.shared::cta.v2.u32 {%r1, %r2}, [%r3]",
            Some("load.shared.v2"),
        ),
        ("ld.volatile.u32 %r1, [%rd1]", Some("load.generic")),
        ("ld.local.u32 %r1, [%rd1]", Some("load.local")),
        (
            "st.global.cs.v4.u32 [%rd1], {%r1, %r2, %r3, %r4}",
            Some("store.global.v4"),
        ),
        ("st.v2.f32 [%rd1], {%f1, %f2}", Some("store.generic.v2")),
        ("st.local.u32 [%rd1], 0", Some("store.local")),
        ("call.uni helper, ()", Some("call")),
        ("add.s32 %r1, %r2, %r3", None),
    ] {
        let module = kernel(&format!("{instruction}; ret;"));
        let counted = count::kind(&module.functions[0].blocks[0].instructions[0]);
        assert_eq!(counted.as_deref(), kind, "{instruction}");
    }
}

#[test]
fn firm_kinds() {
    for kind in [
        "barrier",
        "shuffle",
        "vote",
        "atomic",
        "fence",
        "load.local",
        "store.local.v4",
        "local_bytes",
    ] {
        assert!(count::is_firm(kind), "{kind}");
    }
    for kind in ["load.global.v4", "store.shared", "div64", "call", "ex2"] {
        assert!(!count::is_firm(kind), "{kind}");
    }
}

#[test]
fn what_a_kernel_calls_counts_each_time() {
    let module = module(
        ".func leaf() { bar.sync 0; ret; }
         .func loop() { bar.sync 0; call.uni loop, (); ret; }
         .entry k() { .local .b8 depot[8]; call.uni leaf, (); call.uni leaf, (); call.uni loop, (); ret; }",
    );
    let counts = count::function(&module, &module.functions[2]);
    let expected = [("barrier", 3), ("call", 4), ("local_bytes", 8)];
    assert_eq!(
        counts,
        expected.map(|(kind, n)| (kind.to_owned(), n)).into()
    );
}
