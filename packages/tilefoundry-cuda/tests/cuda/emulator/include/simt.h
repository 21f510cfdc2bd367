/// \file simt.h
/// Runs the kernels of the CUDA surface on a CPU, for tests: a block's threads are fibers that take turns at
/// barriers and shuffles. Included before everything else; the SIMT tiers of the runtime then compile as plain C++.
#pragma once

#include <cuda_runtime.h>
#include <ucontext.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#undef __device__
#undef __global__
#undef __shared__
#undef __launch_bounds__
#define __device__
#define __global__
#define __shared__ static thread_local
#define __launch_bounds__(...)

namespace simt {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

/// Left as it is handed out, so that only what a thread touches takes memory.
constexpr std::size_t stack_bytes = 1 << 20;

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[stack_bytes]};
  unsigned thread = 0;
  bool done = false;
  bool waits_block = false;
  bool waits_warp = false;
};

struct Machine {
  Index thread, block, block_size, grid;
  std::vector<Fiber> fibers;
  Fiber* running = nullptr;
  ucontext_t scheduler;
  unsigned long long slots[1024];
  std::string error;
};

inline Machine& machine() {
  static thread_local Machine one;
  return one;
}

inline void yield() {
  Machine& m = machine();
  Fiber* self = m.running;
  swapcontext(&self->context, &m.scheduler);
}

/// Wait until every thread of the block that still runs has arrived.
inline void block_barrier() {
  machine().running->waits_block = true;
  yield();
}

/// Wait until every thread of the warp that still runs has arrived.
inline void warp_barrier() {
  machine().running->waits_warp = true;
  yield();
}

template <class T>
T exchange(T value, int from_lane) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  Machine& m = machine();
  const unsigned self = m.running->thread, base = self / 32 * 32;
  std::memcpy(&m.slots[self], &value, sizeof(T));
  warp_barrier();
  T out;
  const unsigned source = base + unsigned(from_lane) % 32;
  std::memcpy(&out, &m.slots[source < m.block_size.x ? source : self], sizeof(T));
  warp_barrier();
  return out;
}

inline void release(Machine& m) {
  bool all = true;
  for (Fiber& f : m.fibers) all = all && (f.done || f.waits_block);
  if (all)
    for (Fiber& f : m.fibers) f.waits_block = false;
  for (std::size_t w = 0; w < m.fibers.size(); w += 32) {
    bool whole = true;
    for (std::size_t i = w; i < w + 32 && i < m.fibers.size(); ++i) whole = whole && (m.fibers[i].done || m.fibers[i].waits_warp);
    if (whole)
      for (std::size_t i = w; i < w + 32 && i < m.fibers.size(); ++i) m.fibers[i].waits_warp = false;
  }
}

using Body = void (*)(void**);
inline thread_local Body body;
inline thread_local void** arguments;

inline void enter() {
  Machine& m = machine();
  try {
    body(arguments);
  } catch (std::exception const& failure) {
    if (m.error.empty()) m.error = failure.what();
  }
  m.running->done = true;
  yield();
}

/// Where the blocks of a cooperative launch meet; a failed block lets the others go on.
struct Meeting {
  std::atomic<unsigned> arrived{0}, round{0};
  std::atomic<bool> failed{false};
};
inline Meeting& meeting() {
  static Meeting one;
  return one;
}

/// Wait for all blocks. Each runs in a thread of its own, its fibers take turns there.
inline void grid_barrier() {
  block_barrier();
  if (machine().running->thread == 0) {
    Meeting& m = meeting();
    const unsigned round = m.round;
    if (++m.arrived == machine().grid.x) {
      m.arrived = 0;
      ++m.round;
    } else {
      while (m.round == round && !m.failed) std::this_thread::yield();
    }
  }
  block_barrier();
}

/// Run blocks `[first, last)` of `grid` one after the other; the text of the first failure, or "".
inline std::string run_blocks(Body kernel, void** args, unsigned grid, unsigned threads, unsigned first, unsigned last) {
  Machine& m = machine();
  m.error.clear();
  body = kernel, arguments = args;
  m.grid = {grid, 1, 1}, m.block_size = {threads, 1, 1};
  for (unsigned b = first; b < last && m.error.empty(); ++b) {
    m.block = {b, 0, 0};
    if (m.fibers.size() != threads) m.fibers = std::vector<Fiber>(threads);
    for (unsigned t = 0; t < threads; ++t) {
      Fiber& f = m.fibers[t];
      f.thread = t, f.done = f.waits_block = f.waits_warp = false;
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.get();
      f.context.uc_stack.ss_size = stack_bytes;
      f.context.uc_link = nullptr;
      makecontext(&f.context, reinterpret_cast<void (*)()>(enter), 0);
    }
    for (bool alive = true; alive;) {
      alive = false;
      bool moved = false;
      for (Fiber& f : m.fibers) {
        if (f.done) continue;
        alive = true;
        if (f.waits_block || f.waits_warp) continue;
        moved = true;
        m.running = &f;
        m.thread = {f.thread, 0, 0};
        swapcontext(&m.scheduler, &f.context);
      }
      release(m);
      if (alive && !moved) {
        bool stuck = true;
        for (Fiber& f : m.fibers) stuck = stuck && (f.done || f.waits_block || f.waits_warp);
        if (stuck) return "threads wait at different barriers";
      }
    }
  }
  return m.error;
}

/// Run `kernel` over `grid` blocks of `threads`: one block after the other, or all at once where they meet.
inline std::string run(Body kernel, void** args, unsigned grid, unsigned threads, bool cooperative) {
  if (!cooperative) return run_blocks(kernel, args, grid, threads, 0, grid);
  Meeting& m = meeting();
  m.arrived = 0, m.round = 0, m.failed = false;
  std::vector<std::string> errors(grid);
  std::vector<std::thread> blocks;
  for (unsigned b = 0; b < grid; ++b)
    blocks.emplace_back([&, b] {
      errors[b] = run_blocks(kernel, args, grid, threads, b, b + 1);
      if (!errors[b].empty()) m.failed = true;
    });
  for (std::thread& block : blocks) block.join();
  for (std::string const& error : errors)
    if (!error.empty()) return error;
  return "";
}

}  // namespace simt

#define threadIdx (::simt::Index{::simt::machine().running->thread, 0, 0})
#define blockIdx (::simt::machine().block)
#define blockDim (::simt::machine().block_size)
#define gridDim (::simt::machine().grid)

// Each image has its own of these: they reach the machine of the image that calls.
static inline void __syncthreads() { simt::block_barrier(); }
static inline void __syncwarp(unsigned = 0xffffffffu) { simt::warp_barrier(); }
template <class T>
static T __shfl_sync(unsigned, T value, int lane) {
  return simt::exchange(value, lane);
}
template <class T>
static T __shfl_xor_sync(unsigned, T value, int mask) {
  return simt::exchange(value, int(simt::machine().running->thread % 32) ^ mask);
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
[[noreturn]] static inline void __trap() { throw std::runtime_error("the kernel stopped: a value breaks its contract"); }
static inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
static inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }

static inline std::size_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<std::size_t>(p); }
inline float __expf(float x) { return std::exp(x); }
// The one instruction that device code outside of the PTX tiers spells out: a reciprocal of x into y.
#define asm(...) y = 1.0f / x

#include <tilefoundry/runtime/cuda/topology.cuh>

namespace tilefoundry {
template <>
inline auto program_id<TopologyScope::cta>() noexcept {
  return static_cast<int>(blockIdx.x);
}
template <>
inline auto program_id<TopologyScope::thread>() noexcept {
  return static_cast<int>(threadIdx.x);
}
}  // namespace tilefoundry
