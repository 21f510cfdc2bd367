/// \file parallel.h
/// `parallel_for`: contiguous chunks over OpenMP threads, none for small work.
#pragma once

#include <cstdint>

#include <tilefoundry/runtime/cpu/abi.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#if defined(__clang__)
#define TILEFOUNDRY_VECTORIZE _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TILEFOUNDRY_VECTORIZE _Pragma("GCC ivdep")
#else
#define TILEFOUNDRY_VECTORIZE
#endif

/// Stands behind the parameters of a body that is handed to `parallel_for`: it becomes part of the one function that
/// runs a chunk.
#define TILEFOUNDRY_CHUNK __attribute__((always_inline))

/// Scalar operations that one thread must have before it is worth waking.
#ifndef TILEFOUNDRY_WORK_THRESHOLD
#define TILEFOUNDRY_WORK_THRESHOLD 32768
#endif

namespace tilefoundry {

using index_t = std::int64_t;

/// Upper bound on the threads of one parallel region: what the loader's source says to the calling thread, else
/// the number that the loader set, else the OpenMP default.
inline int num_threads() {
  int (*const source)() = detail::thread_source.load(std::memory_order_relaxed);
  const int limit = source != nullptr ? source() : detail::thread_limit.load(std::memory_order_relaxed);
#ifdef _OPENMP
  return limit > 0 ? limit : omp_get_max_threads();
#else
  static_cast<void>(limit);
  return 1;
#endif
}

/// Threads that `items` items of `cost` scalar operations each deserve; 1 inside a parallel region.
inline int threads_for(index_t items, index_t cost) {
#ifdef _OPENMP
  if (omp_in_parallel()) return 1;
#endif
  const double work = static_cast<double>(items) * static_cast<double>(cost > 0 ? cost : 1);
  const double deserved = work / TILEFOUNDRY_WORK_THRESHOLD;
  index_t threads = num_threads();
  if (deserved < static_cast<double>(threads)) threads = static_cast<index_t>(deserved);
  if (threads > items) threads = items;
  return threads < 1 ? 1 : static_cast<int>(threads);
}

namespace detail {

/// One chunk, with a copy of what `body` captured: read through a reference, captures would be loaded again in every
/// turn of the loops inside, which then do not vectorise. Out of line, so that it is compiled once.
template <class Body>
[[gnu::noinline]] void run_chunk(Body const body, index_t begin, index_t end) {
  body(begin, end);
}

}  // namespace detail

/// Call `body(begin, end)` on disjoint chunks that cover [0, items).
/// \param cost scalar operations per item; below the work threshold the caller's thread does it all.
/// The chunk boundaries depend on the thread count, so a body must not carry values from item to item.
template <class Body>
void parallel_for(index_t items, index_t cost, Body const& body) {
  if (items <= 0) return;
  const int threads = threads_for(items, cost);
  if (threads == 1) {
    detail::run_chunk(body, index_t{0}, items);
    return;
  }
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
  {
    const index_t count = omp_get_num_threads();
    const index_t rank = omp_get_thread_num();
    const index_t chunk = items / count, extra = items % count;
    const index_t begin = rank * chunk + (rank < extra ? rank : extra);
    const index_t end = begin + chunk + (rank < extra ? 1 : 0);
    if (begin < end) detail::run_chunk(body, begin, end);
  }
#endif
}

}  // namespace tilefoundry
