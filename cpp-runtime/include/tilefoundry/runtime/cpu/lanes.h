/// \file lanes.h
/// `sum_in_lanes`: sums that do not wait for each addition before the next one.
#pragma once

#include <tilefoundry/runtime/cpu/parallel.h>

namespace tilefoundry {

/// The sum of `value(j)` over `[begin, end)`, by the calling thread.
///
/// One running sum would be as slow as one addition takes from end to end. `Lanes` of them run side by side, lane l
/// taking the values at begin + l, begin + l + Lanes, ...; then the rest, then the lanes in order of their vectors. The
/// order depends on `end - begin` alone, so that equal values give equal bits. Short runs have one sum.
template <int Lanes, class T, class F>
inline T sum_in_lanes(index_t begin, index_t end, F const& value) {
  T total = T(0);
  index_t j = begin;
  if (end - begin >= 2 * Lanes) {
    T lanes[Lanes] = {};
    for (; end - j >= Lanes; j += Lanes) {
#pragma omp simd
      for (int l = 0; l < Lanes; ++l) lanes[l] += value(j + l);
    }
#pragma omp simd reduction(+ : total)
    for (int l = 0; l < Lanes; ++l) total += lanes[l];
  }
  const index_t rest = end - j;
#pragma omp simd reduction(+ : total)
  for (index_t k = 0; k < rest; ++k) total += value(j + k);
  return total;
}

}  // namespace tilefoundry
