// Every kind of barrier under stress: neighbours read what the others wrote before the barrier, round after round.
// Levels without a static shape, too: this program specialises none.
#include <cooperative_groups.h>
#include <tilefoundry/runtime.h>

#include "harness.h"

using namespace tilefoundry;
using harness::Buffer;

/// Each participant writes its round's number and, after the barrier, looks at a far participant's slot.
template <ops::SyncKind Kind, int Base, int Count, unsigned Mask, int Id>
__global__ void in_block(int rounds, int* errors) {
  __shared__ volatile int slot[1024];
  const int t = threadIdx.x;
  const bool takes_part = Kind == ops::SyncKind::lanes ? t >= Base && t < Base + 32 && (Mask >> (t - Base) & 1u)
                          : Kind == ops::SyncKind::named ? t >= Base && t < Base + Count
                                                         : true;
  // A warp meets by itself, the last one of a block perhaps with fewer than 32 threads.
  const int first = Kind == ops::SyncKind::cta ? 0 : Kind == ops::SyncKind::warp ? t / 32 * 32 : Base;
  const int in_warp = min(32, int(blockDim.x) - t / 32 * 32);
  const int count = Kind == ops::SyncKind::named ? Count
                    : Kind == ops::SyncKind::lanes ? 32
                    : Kind == ops::SyncKind::warp  ? in_warp
                                                   : int(blockDim.x);
  int wrong = 0;
  for (int r = 1; r <= rounds; ++r) {
    if (takes_part) slot[t] = r;
    ops::sync<Kind, Base, Count, Mask, Id>();
    if (takes_part) {
      int other = first + (t - first + r * 7 + 1) % count;
      if (Kind == ops::SyncKind::lanes)
        while (!(Mask >> (other - Base) & 1u)) other = Base + (other - Base + 1) % 32;
      wrong += slot[other] != r;
    }
    ops::sync<Kind, Base, Count, Mask, Id>();
  }
  if (wrong) atomicAdd(errors, wrong);
}

template <ops::SyncKind Kind, int Base, int Count, unsigned Mask, int Id>
void check_block(char const* name, int threads) {
  Buffer<int> errors(std::vector<int>{0});
  for (int launch = 0; launch < 3; ++launch)
    in_block<Kind, Base, Count, Mask, Id><<<8, threads>>>(harness::quick() ? 50 : 2000, errors.data());
  CHECK_CUDA(cudaGetLastError());
  harness::expect(errors.host()[0] == 0, name);
}

/// Two disjoint intervals of one block on two hardware barriers, at different speeds.
__global__ void two_intervals(int rounds, int* errors) {
  __shared__ volatile int slot[256];
  const int t = threadIdx.x;
  int wrong = 0;
  for (int r = 1; r <= rounds * (t < 64 ? 1 : 3); ++r) {
    slot[t] = r;
    ops::sync<ops::SyncKind::named, 0, 64, 0, 1>();
    ops::sync<ops::SyncKind::named, 64, 192, 0, 2>();
    const int other = t < 64 ? (t + r) % 64 : 64 + (t - 64 + r) % 192;
    wrong += slot[other] != r;
    ops::sync<ops::SyncKind::named, 0, 64, 0, 1>();
    ops::sync<ops::SyncKind::named, 64, 192, 0, 2>();
  }
  if (wrong) atomicAdd(errors, wrong);
}

/// Blocks write, meet, read a neighbour's value with a plain load.
__global__ void in_grid(int rounds, int* slots, unsigned int* pair, int* errors) {
  const int b = blockIdx.x, blocks = gridDim.x;
  int wrong = 0;
  for (int r = 1; r <= rounds; ++r) {
    if (threadIdx.x == 0) slots[b] = slots[b] + 1;
    ops::sync<ops::SyncKind::grid>(pair);
    if (threadIdx.x == 32) wrong += __ldcg(slots + (b + r) % blocks) != slots[blocks] + r;
    ops::sync<ops::SyncKind::grid>(pair);
  }
  if (wrong) atomicAdd(errors, wrong);
}

void grid_cases() {
  cudaDeviceProp device;
  CHECK_CUDA(cudaGetDeviceProperties(&device, 0));
  for (int blocks : {1, 2, device.multiProcessorCount, 2 * device.multiProcessorCount}) {
    Buffer<int> slots(std::vector<int>(blocks + 1, 0)), errors(std::vector<int>{0});
    Buffer<unsigned> pair(std::vector<unsigned>{0, 0});
    int rounds = harness::quick() ? 20 : 5000;  // two barriers a round
    for (int launch = 0; launch < 4; ++launch) {
      const int base = launch * rounds;
      CHECK_CUDA(cudaMemcpy(slots.data() + blocks, &base, sizeof(int), cudaMemcpyHostToDevice));
      int* s = slots.data();
      unsigned* p = pair.data();
      int* e = errors.data();
      void* args[] = {&rounds, &s, &p, &e};
      CHECK_CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(in_grid), dim3(blocks), dim3(64), args, 0, nullptr));
    }
    harness::expect(errors.host()[0] == 0, "grid barrier with " + std::to_string(blocks) + " blocks");
    auto words = pair.host();
    harness::expect(words[0] == 0, "the arrival count is reset after every barrier");
    harness::expect(words[1] == unsigned(4 * rounds * 2), "the round number counts the barriers");
    harness::expect(pair.guards_intact() && slots.guards_intact(), "grid barrier: guard bytes changed");
  }
  // The round number wraps.
  Buffer<int> slots(std::vector<int>(133, 0)), errors(std::vector<int>{0});
  Buffer<unsigned> pair(std::vector<unsigned>{0, 0xfffffff0u});
  int rounds = 30, *s = slots.data(), *e = errors.data();
  unsigned* p = pair.data();
  void* args[] = {&rounds, &s, &p, &e};
  CHECK_CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(in_grid), dim3(132), dim3(64), args, 0, nullptr));
  harness::expect(errors.host()[0] == 0, "grid barrier over the wrap of the round number");
}

/// What each block sees of levels whose extents only the launch states.
__global__ void levels(int* out) {
  if (threadIdx.x != blockDim.x - 1) return;
  int* mine = out + 6 * blockIdx.x;
  mine[0] = program_id<TopologyScope::cta>(), mine[1] = program_id<TopologyScope::thread>();
  mine[2] = program_dim<TopologyScope::cta>(), mine[3] = program_dim<TopologyScope::thread>();
  mine[4] = cute::get<0>(program_shape<TopologyScope::cta>());
  mine[5] = cute::get<0>(program_shape<TopologyScope::thread>());
}

void level_cases() {
  for (int blocks : {1, 3, 1025})
    for (int threads : {1, 33, 1024}) {
      Buffer<int> out(6 * blocks);
      levels<<<blocks, threads>>>(out.data());
      CHECK_CUDA(cudaGetLastError());
      auto got = out.host();
      bool right = true;
      for (int b = 0; b < blocks; ++b) {
        const int want[6] = {b, threads - 1, blocks, threads, blocks, threads};
        for (int i = 0; i < 6; ++i) right = right && got[6 * b + i] == want[i];
      }
      harness::expect(right && out.guards_intact(), "levels of a launch of " + std::to_string(blocks) + " blocks");
    }
}

int main() {
  using K = ops::SyncKind;
  level_cases();
  check_block<K::cta, 0, 0, 0, 0>("cta, 32 threads", 32);
  check_block<K::cta, 0, 0, 0, 0>("cta, 1000 threads", 1000);
  check_block<K::warp, 0, 0, 0, 0>("warp", 32);
  check_block<K::warp, 0, 0, 0, 0>("a warp of 7 threads", 7);
  check_block<K::warp, 0, 0, 0, 0>("warps of a block of 1024, each by itself", 1024);
  check_block<K::warp, 0, 0, 0, 0>("warps of a block of 100, the last of 4 threads", 100);
  check_block<K::lanes, 0, 0, 0xffu, 0>("lanes 0-7", 64);
  check_block<K::lanes, 32, 0, 0x0f0ff00fu, 0>("scattered lanes of the second warp", 64);
  check_block<K::named, 32, 64, 0, 3>("named, threads 32-95", 128);
  check_block<K::named, 0, 512, 0, 15>("named, half of the block", 1024);
  Buffer<int> errors(std::vector<int>{0});
  two_intervals<<<8, 256>>>(harness::quick() ? 50 : 2000, errors.data());
  harness::expect(errors.host()[0] == 0, "two named barriers at different speeds");
  grid_cases();
  return harness::finish("sync");
}
