//! Every driver function that `cust`, or Ferroseq through `cust::sys`, refers to.
//!
//! One line each, under the name that `cust_raw` links (with its `_v2`); arguments as the
//! C ABI passes them: every pointer and handle is a [`Ptr`], enums are their integer.

use crate::library;
use std::ffi::c_void;
use std::sync::OnceLock;

/// A pointer or a driver handle.
type Ptr = *mut c_void;

macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// Forwards to the driver's function of this name.
            ///
            /// # Safety
            /// As the driver's documentation of this function.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name($($argument: $type),*) -> i32 {
                type Function = unsafe extern "C" fn($($type),*) -> i32;
                static FUNCTION: OnceLock<Result<Function, i32>> = OnceLock::new();
                let function = FUNCTION.get_or_init(|| {
                    // SAFETY: `Function` is the C prototype of this name in the driver API,
                    // which NVIDIA never changes: a new prototype gets a new suffix.
                    unsafe { library::symbol::<Function>(stringify!($name)) }
                });
                let code = match function {
                    // SAFETY: the caller's promise is the driver's.
                    Ok(function) => unsafe { function($($argument),*) },
                    Err(code) => *code,
                };
                crate::codes::settle(code)
            }
        )*

        /// The names above.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

forward! {
    // Errors, start, devices.
    cuGetErrorString(error: i32, p_str: Ptr);
    cuGetErrorName(error: i32, p_str: Ptr);
    cuInit(flags: u32);
    cuDriverGetVersion(driver_version: Ptr);
    cuDeviceGet(device: Ptr, ordinal: i32);
    cuDeviceGetCount(count: Ptr);
    cuDeviceGetName(name: Ptr, len: i32, dev: i32);
    cuDeviceGetUuid(uuid: Ptr, dev: i32);
    cuDeviceTotalMem_v2(bytes: Ptr, dev: i32);
    cuDeviceGetAttribute(pi: Ptr, attrib: i32, dev: i32);
    cuDeviceGetDefaultMemPool(pool_out: Ptr, dev: i32);
    cuDeviceGetPCIBusId(pci_bus_id: Ptr, len: i32, dev: i32);

    // Contexts.
    cuDevicePrimaryCtxRetain(pctx: Ptr, dev: i32);
    cuDevicePrimaryCtxRelease_v2(dev: i32);
    cuDevicePrimaryCtxSetFlags_v2(dev: i32, flags: u32);
    cuDevicePrimaryCtxGetState(dev: i32, flags: Ptr, active: Ptr);
    cuDevicePrimaryCtxReset_v2(dev: i32);
    cuCtxCreate_v2(pctx: Ptr, flags: u32, dev: i32);
    cuCtxDestroy_v2(ctx: Ptr);
    cuCtxPushCurrent_v2(ctx: Ptr);
    cuCtxPopCurrent_v2(pctx: Ptr);
    cuCtxSetCurrent(ctx: Ptr);
    cuCtxGetCurrent(pctx: Ptr);
    cuCtxGetDevice(device: Ptr);
    cuCtxGetFlags(flags: Ptr);
    cuCtxSynchronize();
    cuCtxSetLimit(limit: i32, value: usize);
    cuCtxGetLimit(pvalue: Ptr, limit: i32);
    cuCtxGetCacheConfig(pconfig: Ptr);
    cuCtxSetCacheConfig(config: i32);
    cuCtxGetSharedMemConfig(p_config: Ptr);
    cuCtxSetSharedMemConfig(config: i32);
    cuCtxGetApiVersion(ctx: Ptr, version: Ptr);
    cuCtxGetStreamPriorityRange(least_priority: Ptr, greatest_priority: Ptr);
    cuCtxResetPersistingL2Cache();

    // Modules and linking.
    cuModuleLoad(module: Ptr, fname: Ptr);
    cuModuleLoadData(module: Ptr, image: Ptr);
    cuModuleLoadDataEx(module: Ptr, image: Ptr, num_options: u32, options: Ptr, option_values: Ptr);
    cuModuleUnload(hmod: Ptr);
    cuModuleGetFunction(hfunc: Ptr, hmod: Ptr, name: Ptr);
    cuModuleGetGlobal_v2(dptr: Ptr, bytes: Ptr, hmod: Ptr, name: Ptr);
    cuLinkCreate_v2(num_options: u32, options: Ptr, option_values: Ptr, state_out: Ptr);
    cuLinkAddData_v2(state: Ptr, kind: i32, data: Ptr, size: usize, name: Ptr, num_options: u32, options: Ptr, option_values: Ptr);
    cuLinkComplete(state: Ptr, cubin_out: Ptr, size_out: Ptr);
    cuLinkDestroy(state: Ptr);

    // Memory.
    cuMemGetInfo_v2(free: Ptr, total: Ptr);
    cuMemAlloc_v2(dptr: Ptr, bytesize: usize);
    cuMemFree_v2(dptr: u64);
    cuMemAllocHost_v2(pp: Ptr, bytesize: usize);
    cuMemFreeHost(p: Ptr);
    cuMemHostAlloc(pp: Ptr, bytesize: usize, flags: u32);
    cuMemAllocManaged(dptr: Ptr, bytesize: usize, flags: u32);
    cuMemHostRegister_v2(p: Ptr, bytesize: usize, flags: u32);
    cuMemHostUnregister(p: Ptr);
    cuMemcpyHtoD_v2(dst_device: u64, src_host: Ptr, byte_count: usize);
    cuMemcpyDtoH_v2(dst_host: Ptr, src_device: u64, byte_count: usize);
    cuMemcpyDtoD_v2(dst_device: u64, src_device: u64, byte_count: usize);
    cuMemcpyHtoA_v2(dst_array: Ptr, dst_offset: usize, src_host: Ptr, byte_count: usize);
    cuMemcpyAtoH_v2(dst_host: Ptr, src_array: Ptr, src_offset: usize, byte_count: usize);
    cuMemcpy2D_v2(p_copy: Ptr);
    cuMemcpyAsync(dst: u64, src: u64, byte_count: usize, h_stream: Ptr);
    cuMemcpyHtoDAsync_v2(dst_device: u64, src_host: Ptr, byte_count: usize, h_stream: Ptr);
    cuMemcpyDtoHAsync_v2(dst_host: Ptr, src_device: u64, byte_count: usize, h_stream: Ptr);
    cuMemcpyDtoDAsync_v2(dst_device: u64, src_device: u64, byte_count: usize, h_stream: Ptr);
    cuMemsetD8_v2(dst_device: u64, uc: u8, n: usize);
    cuMemsetD16_v2(dst_device: u64, us: u16, n: usize);
    cuMemsetD32_v2(dst_device: u64, ui: u32, n: usize);
    cuMemsetD8Async(dst_device: u64, uc: u8, n: usize, h_stream: Ptr);
    cuMemsetD16Async(dst_device: u64, us: u16, n: usize, h_stream: Ptr);
    cuMemsetD32Async(dst_device: u64, ui: u32, n: usize, h_stream: Ptr);
    cuArrayDestroy(h_array: Ptr);
    cuArray3DCreate_v2(p_handle: Ptr, p_allocate_array: Ptr);
    cuArray3DGetDescriptor_v2(p_array_descriptor: Ptr, h_array: Ptr);
    cuMemFreeAsync(dptr: u64, h_stream: Ptr);
    cuMemAllocAsync(dptr: Ptr, bytesize: usize, h_stream: Ptr);
    cuMemPoolSetAttribute(pool: Ptr, attr: i32, value: Ptr);
    cuMemPrefetchAsync(dev_ptr: u64, count: usize, dst_device: i32, h_stream: Ptr);
    cuMemAdvise(dev_ptr: u64, count: usize, advice: i32, device: i32);
    cuImportExternalMemory(ext_mem_out: Ptr, mem_handle_desc: Ptr);
    cuExternalMemoryGetMappedBuffer(dev_ptr: Ptr, ext_mem: Ptr, buffer_desc: Ptr);
    cuDestroyExternalMemory(ext_mem: Ptr);

    // Streams and events.
    cuStreamCreate(ph_stream: Ptr, flags: u32);
    cuStreamCreateWithPriority(ph_stream: Ptr, flags: u32, priority: i32);
    cuStreamGetPriority(h_stream: Ptr, priority: Ptr);
    cuStreamGetFlags(h_stream: Ptr, flags: Ptr);
    cuStreamWaitEvent(h_stream: Ptr, h_event: Ptr, flags: u32);
    cuStreamBeginCapture_v2(h_stream: Ptr, mode: i32);
    cuThreadExchangeStreamCaptureMode(mode: Ptr);
    cuStreamEndCapture(h_stream: Ptr, ph_graph: Ptr);
    cuStreamIsCapturing(h_stream: Ptr, capture_status: Ptr);
    cuStreamQuery(h_stream: Ptr);
    cuStreamSynchronize(h_stream: Ptr);
    cuStreamDestroy_v2(h_stream: Ptr);
    cuEventCreate(ph_event: Ptr, flags: u32);
    cuEventRecord(h_event: Ptr, h_stream: Ptr);
    cuEventQuery(h_event: Ptr);
    cuEventSynchronize(h_event: Ptr);
    cuEventDestroy_v2(h_event: Ptr);
    cuEventElapsedTime(p_milliseconds: Ptr, h_start: Ptr, h_end: Ptr);

    // Functions and launches.
    cuFuncGetAttribute(pi: Ptr, attrib: i32, hfunc: Ptr);
    cuFuncSetAttribute(hfunc: Ptr, attrib: i32, value: i32);
    cuFuncSetCacheConfig(hfunc: Ptr, config: i32);
    cuFuncSetSharedMemConfig(hfunc: Ptr, config: i32);
    cuLaunchKernel(f: Ptr, grid_dim_x: u32, grid_dim_y: u32, grid_dim_z: u32, block_dim_x: u32, block_dim_y: u32, block_dim_z: u32, shared_mem_bytes: u32, h_stream: Ptr, kernel_params: Ptr, extra: Ptr);
    cuLaunchCooperativeKernel(f: Ptr, grid_dim_x: u32, grid_dim_y: u32, grid_dim_z: u32, block_dim_x: u32, block_dim_y: u32, block_dim_z: u32, shared_mem_bytes: u32, h_stream: Ptr, kernel_params: Ptr);
    cuLaunchHostFunc(h_stream: Ptr, function: Ptr, user_data: Ptr);
    cuOccupancyMaxActiveBlocksPerMultiprocessor(num_blocks: Ptr, func: Ptr, block_size: i32, dynamic_smem_size: usize);
    cuOccupancyMaxPotentialBlockSize(min_grid_size: Ptr, block_size: Ptr, func: Ptr, block_size_to_dynamic_smem_size: Ptr, dynamic_smem_size: usize, block_size_limit: i32);
    cuOccupancyAvailableDynamicSMemPerBlock(dynamic_smem_size: Ptr, func: Ptr, num_blocks: i32, block_size: i32);

    // Graphs.
    cuGraphCreate(ph_graph: Ptr, flags: u32);
    cuGraphAddKernelNode(ph_graph_node: Ptr, h_graph: Ptr, dependencies: Ptr, num_dependencies: usize, node_params: Ptr);
    cuGraphKernelNodeGetParams(h_node: Ptr, node_params: Ptr);
    cuGraphNodeGetType(h_node: Ptr, kind: Ptr);
    cuGraphGetNodes(h_graph: Ptr, nodes: Ptr, num_nodes: Ptr);
    cuGraphGetEdges(h_graph: Ptr, from: Ptr, to: Ptr, num_edges: Ptr);
    cuGraphInstantiateWithFlags(ph_graph_exec: Ptr, h_graph: Ptr, flags: u64);
    cuGraphUpload(h_graph_exec: Ptr, h_stream: Ptr);
    cuGraphLaunch(h_graph_exec: Ptr, h_stream: Ptr);
    cuGraphExecDestroy(h_graph_exec: Ptr);
    cuGraphDestroy(h_graph: Ptr);
    cuGraphDebugDotPrint(h_graph: Ptr, path: Ptr, flags: u32);

    // Textures and surfaces (referenced by cust, not used here).
    cuTexObjectCreate(p_tex_object: Ptr, p_res_desc: Ptr, p_tex_desc: Ptr, p_res_view_desc: Ptr);
    cuTexObjectDestroy(tex_object: u64);
    cuTexObjectGetResourceDesc(p_res_desc: Ptr, tex_object: u64);
    cuSurfObjectCreate(p_surf_object: Ptr, p_res_desc: Ptr);
    cuSurfObjectDestroy(surf_object: u64);
    cuSurfObjectGetResourceDesc(p_res_desc: Ptr, surf_object: u64);
}
