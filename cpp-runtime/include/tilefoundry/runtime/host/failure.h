/// \file failure.h
/// Errors of generated code on their way to Python, as plain C++ exceptions inside the library.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace tilefoundry {
namespace host {

/// A Python exception to be raised by the entry: its class name and text.
struct Failure {
  const char* kind;
  std::string message;
};

[[noreturn]] inline void fail(const char* kind, std::string message) { throw Failure{kind, std::move(message)}; }

}  // namespace host

/// The first index outside its extent that a kernel met. Written by any thread, read after the loops.
class IndexFault {
 public:
  /// `index` where it lies in [0, extent); else 0, and the index is recorded.
  std::int64_t bounded(std::int64_t index, std::int64_t extent) {
    if (static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(extent)) return index;
    if (!met_.exchange(true)) index_.store(index);
    return 0;
  }
  /// Throws when an index was recorded.
  void check(const char* op, std::int64_t extent) const {
    if (!met_.load()) return;
    host::fail("ValueError", std::string("tf.") + op + ": the index " + std::to_string(index_.load()) +
                                 " is outside the extent " + std::to_string(extent));
  }

 private:
  std::atomic<bool> met_{false};
  std::atomic<std::int64_t> index_{0};
};

}  // namespace tilefoundry
