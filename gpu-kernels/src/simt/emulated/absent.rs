//! What stands in for the emulator in a build without it: nothing runs.

const NO_EMULATOR: &str =
    "device code runs only inside an emulated launch, and this build has no emulator";

pub mod thread {
    macro_rules! index { ($($name:ident)*) => { $(pub fn $name() -> u32 { panic!("{}", super::NO_EMULATOR) })* }; }
    index! { thread_idx_x thread_idx_y thread_idx_z block_idx_x block_idx_y block_idx_z
    block_dim_x block_dim_y block_dim_z grid_dim_x grid_dim_y grid_dim_z lane_id }
    pub fn sync_threads() {
        panic!("{}", super::NO_EMULATOR)
    }
    pub fn sync_threads_or(_predicate: bool) -> bool {
        panic!("{}", super::NO_EMULATOR)
    }
    pub fn spin_hint() {
        panic!("{}", super::NO_EMULATOR)
    }
    pub fn trap() -> ! {
        panic!("{}", super::NO_EMULATOR)
    }
}

pub mod warp {
    pub fn sync(_mask: u32) {
        panic!("{}", super::NO_EMULATOR)
    }
    macro_rules! shuffles { ($($name:ident)*) => { $(pub fn $name(_mask: u32, _value: u32, _lane: u32, _clamp: u32) -> u32 { panic!("{}", super::NO_EMULATOR) })* }; }
    shuffles! { shuffle_idx shuffle_up shuffle_down shuffle_xor }
    pub fn ballot(_mask: u32, _predicate: bool) -> u32 {
        panic!("{}", super::NO_EMULATOR)
    }
    macro_rules! words { ($($name:ident)*) => { $(pub fn $name(_mask: u32, _value: u32) -> u32 { panic!("{}", super::NO_EMULATOR) })* }; }
    words! { match_any reduce_add reduce_min reduce_max }
}

pub mod matrix {
    macro_rules! products { ($($name:ident)*) => { $(pub fn $name(_a: [u32; 4], _b: [u32; 2], _c: [f32; 4]) -> [f32; 4] { panic!("{}", super::NO_EMULATOR) })* }; }
    products! { multiply_tf32 multiply_bf16 multiply_f16 }
}

#[allow(clippy::missing_safety_doc)]
pub mod memory {
    use crate::simt::Plain;
    pub fn dynamic_shared_base() -> u32 {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn load_global<T: Plain>(_pointer: *const T) -> T {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn load_global_once<T: Plain>(_pointer: *const T) -> T {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn store_global<T: Plain>(_pointer: *mut T, _value: T) {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn store_global_once<T: Plain>(_pointer: *mut T, _value: T) {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn load4_global(_pointer: *const u32) -> [u32; 4] {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn load4_global_once(_pointer: *const u32) -> [u32; 4] {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn store4_global(_pointer: *mut u32, _value: [u32; 4]) {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn store4_global_once(_pointer: *mut u32, _value: [u32; 4]) {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn load_shared<T: Plain>(_address: u32) -> T {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn store_shared<T: Plain>(_address: u32, _value: T) {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn load4_shared(_address: u32) -> [u32; 4] {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn store4_shared(_address: u32, _value: [u32; 4]) {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn copy16_async(_target: u32, _source: *const u32) {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn copy4_async(_target: u32, _source: *const u32) {
        panic!("{}", super::NO_EMULATOR)
    }
    pub fn commit_async() {
        panic!("{}", super::NO_EMULATOR)
    }
    pub fn wait_async<const PENDING: u32>() {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn fetch_add(_pointer: *mut u32, _value: u32) -> u32 {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn fetch_max(_pointer: *mut u32, _value: u32) -> u32 {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn fetch_min(_pointer: *mut u32, _value: u32) -> u32 {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn compare_exchange(_pointer: *mut u32, _expected: u32, _new: u32) -> u32 {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn load_acquire(_pointer: *const u32) -> u32 {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn store_release(_pointer: *mut u32, _value: u32) {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn fetch_add64(_pointer: *mut u64, _value: u64) -> u64 {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn fetch_min64(_pointer: *mut u64, _value: u64) -> u64 {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn fetch_max_shared(_address: u32, _value: u32) -> u32 {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn load_relaxed64(_pointer: *const u64) -> u64 {
        panic!("{}", super::NO_EMULATOR)
    }
    pub unsafe fn store_relaxed64(_pointer: *mut u64, _value: u64) {
        panic!("{}", super::NO_EMULATOR)
    }
    pub fn fence() {
        panic!("{}", super::NO_EMULATOR)
    }
}
