/// \file sync.cuh
/// The emulator's form of the header of this name: barriers between fibers, and between the threads that run blocks.
#pragma once

#include <stdexcept>

namespace tilefoundry {
namespace ops {

enum class SyncKind { cta, warp, lanes, named, grid };

template <SyncKind Kind, int Base = 0, int Count = 0, unsigned Mask = 0u, int BarId = 0>
void sync(unsigned int* grid_bar = nullptr) {
  if constexpr (Kind == SyncKind::cta) {
    ::simt::block_barrier();
  } else if constexpr (Kind == SyncKind::warp) {
    ::simt::warp_barrier();
  } else if constexpr (Kind == SyncKind::grid) {
    if (grid_bar[0] != 0 || grid_bar[1] != 0) throw std::runtime_error("the counter pair of a barrier is not zeroed");
    ::simt::grid_barrier();
  } else {
    throw std::runtime_error("the emulator has no barrier for parts of a block");
  }
}

#define TILEFOUNDRY_MEETING_BLOCKS
/// The blocks of such a launch are one cluster.
inline void meet_in_cluster() { ::simt::grid_barrier(); }

}  // namespace ops
}  // namespace tilefoundry
