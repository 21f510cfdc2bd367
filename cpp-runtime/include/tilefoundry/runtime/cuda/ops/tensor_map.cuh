/// \file tensor_map.cuh
/// Tensor maps made on the device (sm_90a): no part of the host takes part, so that a kernel decides by itself
/// whether it reads through the copy engine.
#pragma once

#include <tilefoundry/runtime/cuda/dtype.cuh>
#include <tilefoundry/runtime/cuda/traits.cuh>

namespace tilefoundry {
namespace ops {

/// 128 bytes that describe a tensor to the copy engine; opaque.
struct alignas(128) tensor_map {
  unsigned char bytes[128];
};

/// What a map describes: 16-bit elements in up to three modes, the first contiguous, read in boxes of 64 by
/// `box_lines` by 1 that land in shared memory swizzled by 128 bytes. Elements outside read as zero.
struct tensor_map_spec {
  void const* base;          ///< a multiple of 16
  int extent[3];             ///< elements per mode, at least 1
  long long step_bytes[2];   ///< distance along modes 1 and 2, multiples of 16
  int box_lines;             ///< at most 256
  bool is_bf16;
};

namespace tma_impl {

template <class T>
inline constexpr bool maps_need_sm90a = false;

/// Fill in the fields of a zeroed map in shared memory. One thread.
__device__ inline void describe(tensor_map& map, tensor_map_spec const& spec) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const unsigned long long to = __cvta_generic_to_shared(&map);
  // Compilers before CUDA 12.5 pass the stride on in units of 16 bytes.
#if defined(__CUDACC_VER_MAJOR__) && (__CUDACC_VER_MAJOR__ < 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ < 5))
  constexpr int unit = 4;
#else
  constexpr int unit = 0;
#endif
#define TILEFOUNDRY_MAP_FIELD(field, type, constraint, value) \
  asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." type " [%0], %1;" ::"l"(to), constraint(value) : "memory")
#define TILEFOUNDRY_MAP_MODE(field, mode, type, constraint, value)                                               \
  asm volatile("tensormap.replace.tile." field ".shared::cta.b1024." type " [%0], " mode ", %1;" ::"l"(to), \
               constraint(value)                                                                             \
               : "memory")
#define TILEFOUNDRY_MAP_CONSTANT(field, value) \
  asm volatile("tensormap.replace.tile." field ".shared::cta.b1024.b32 [%0], " value ";" ::"l"(to) : "memory")
  TILEFOUNDRY_MAP_FIELD("global_address", "b64", "l", spec.base);
  TILEFOUNDRY_MAP_FIELD("rank", "b32", "r", 2);  // one less than the number of modes
  TILEFOUNDRY_MAP_MODE("global_dim", "0", "b32", "r", spec.extent[0]);
  TILEFOUNDRY_MAP_MODE("global_dim", "1", "b32", "r", spec.extent[1]);
  TILEFOUNDRY_MAP_MODE("global_dim", "2", "b32", "r", spec.extent[2]);
  TILEFOUNDRY_MAP_MODE("global_stride", "0", "b64", "l", spec.step_bytes[0] >> unit);
  TILEFOUNDRY_MAP_MODE("global_stride", "1", "b64", "l", spec.step_bytes[1] >> unit);
  TILEFOUNDRY_MAP_MODE("box_dim", "0", "b32", "r", 64);
  TILEFOUNDRY_MAP_MODE("box_dim", "1", "b32", "r", spec.box_lines);
  TILEFOUNDRY_MAP_MODE("box_dim", "2", "b32", "r", 1);
  TILEFOUNDRY_MAP_MODE("element_stride", "0", "b32", "r", 1);
  TILEFOUNDRY_MAP_MODE("element_stride", "1", "b32", "r", 1);
  TILEFOUNDRY_MAP_MODE("element_stride", "2", "b32", "r", 1);
  if (spec.is_bf16) {
    TILEFOUNDRY_MAP_CONSTANT("elemtype", "10");
  } else {
    TILEFOUNDRY_MAP_CONSTANT("elemtype", "6");
  }
  TILEFOUNDRY_MAP_CONSTANT("interleave_layout", "0");
  TILEFOUNDRY_MAP_CONSTANT("swizzle_mode", "3");
  TILEFOUNDRY_MAP_CONSTANT("fill_mode", "0");
#undef TILEFOUNDRY_MAP_FIELD
#undef TILEFOUNDRY_MAP_MODE
#undef TILEFOUNDRY_MAP_CONSTANT
#endif
}

}  // namespace tma_impl

/// Global memory for the maps of blocks in flight. A block claims a place for itself, so that concurrent launches of
/// one kernel do not meet. There are more places than blocks that fit on a device when each takes more than half of a
/// multiprocessor's shared memory.
template <int Maps, int Places = 512>
struct map_places {
  tensor_map maps[Places][Maps];
  unsigned taken[Places];

  /// Whether the calling thread has taken `place`; `release` gives it back.
  __device__ bool take(int place) {
#if defined(__CUDA_ARCH__)
    return atomicExch(&taken[place], 1u) == 0u;
#else
    return true;
#endif
  }
  /// Give the place back once no copy through its maps is under way.
  __device__ void release(int place) {
#if defined(__CUDA_ARCH__)
    __threadfence();
    atomicExch(&taken[place], 0u);
#endif
  }
};

/// Make maps: built in `scratch` (shared memory), published in a free place of `places`, ready for loads by the warp.
/// All 32 lanes of one warp call with equal arguments; the result is the place. What takes long, to take a place and to
/// publish, is under way for all maps at once.
template <int Maps, int Places>
__device__ int make_tensor_maps(map_places<Maps, Places>& places, tensor_map* scratch,
                                tensor_map_spec const (&specs)[Maps]) {
  int place = 0;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const int lane = static_cast<int>(threadIdx.x) % 32;
  place = static_cast<int>(blockIdx.x) % Places;
  bool mine = lane != 0 || places.take(place);
  tensor_map_spec spec = specs[0];
  for (int i = 0; i < Maps; ++i) reinterpret_cast<unsigned*>(scratch[i].bytes)[lane] = 0;
  __syncwarp();
  CUTE_UNROLL
  for (int i = 0; i < Maps; ++i)
    if (lane == i) spec = specs[i];
  if (lane < Maps) tma_impl::describe(scratch[lane], spec);
  while (!mine) {
    place = (place + 1) % Places;
    mine = places.take(place);
  }
  place = __shfl_sync(0xffffffffu, place, 0);
  __syncwarp();  // all see what the lanes have described
  for (int i = 0; i < Maps; ++i)
    asm volatile(
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
            &places.maps[place][i]),
        "r"(static_cast<unsigned>(__cvta_generic_to_shared(&scratch[i])))
        : "memory");
  for (int i = 0; i < Maps; ++i)
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(&places.maps[place][i]) : "memory");
  __syncwarp();
#endif
  return place;
}

}  // namespace ops
}  // namespace tilefoundry
