/// \file ranges.h
/// Ranges that a profiler shows around calls and launches. Units ask for them by defining TILEFOUNDRY_RANGES; NVTX is
/// headers alone, and without a profiler in the process a range costs a few nanoseconds.
#pragma once

#include <nvtx3/nvToolsExt.h>

namespace tilefoundry {
namespace host {

/// A range of the calling thread for as long as this lives; an error that leaves the scope ends it too.
class Range {
 public:
  /// `name` is copied by the profiler.
  explicit Range(const char* name) { nvtxRangePushA(name); }
  ~Range() { nvtxRangePop(); }
  Range(Range const&) = delete;
  Range& operator=(Range const&) = delete;
};

}  // namespace host
}  // namespace tilefoundry
