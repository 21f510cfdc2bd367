/// \file grid_barriers.h
/// The counter pairs that grid barriers of a library use on one device.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include <tilefoundry/runtime/host/cuda_driver.h>

namespace tilefoundry {
namespace host {

/// Pairs of words in device memory, made as they are asked for and kept as long as the process. Thread-safe.
///
/// A barrier leaves its pair fit for the next one, so launches that follow one another share a pair: those of one
/// stream. A captured launch has a pair of its own, which its graph zeroes before every replay; two replays of one
/// graph must not overlap.
class GridBarriers {
 public:
  /// The pair of a launch on `stream`. The context of the device is current.
  CuAddress pair(Driver const& driver, CuStream stream) {
    int capturing = 0;
    driver.check(driver.is_capturing(stream, &capturing), "cuStreamIsCapturing");
    std::lock_guard<std::mutex> held(lock_);
    if (capturing == 0)
      for (auto const& known : of_stream_)
        if (known.first == stream) return known.second;
    const CuAddress own = next(driver);
    // In the stream's order: before the launch, and in a captured one before every replay's.
    driver.check(driver.set_words(own, 0, 2, stream), "cuMemsetD32Async");
    if (capturing == 0) of_stream_.emplace_back(stream, own);
    return own;
  }

 private:
  static constexpr int pairs_at_once = 512;
  static constexpr int pair_bytes = 8;

  /// A pair that nobody has yet.
  CuAddress next(Driver const& driver) {
    if (left_ == 0) {
      // Memory may be made while this or another thread captures: the pair itself is no part of the graph.
      int mode = 2;
      driver.exchange_capture_mode(&mode);
      CuAddress block = 0;
      const int code = driver.allocate(&block, std::size_t{pairs_at_once} * pair_bytes);
      driver.exchange_capture_mode(&mode);
      driver.check(code, "the memory of a grid barrier");
      block_ = block;
      left_ = pairs_at_once;
    }
    return block_ + static_cast<CuAddress>(--left_) * pair_bytes;
  }

  std::mutex lock_;
  std::vector<std::pair<CuStream, CuAddress>> of_stream_;
  CuAddress block_ = 0;
  int left_ = 0;
};

}  // namespace host
}  // namespace tilefoundry
