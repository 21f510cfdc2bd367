// What the GPU test programs share: guarded buffers, random inputs, comparison, a tally.
// Every program includes the umbrella first, runs its cases and returns 0 only if all checks passed.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK_CUDA(call)                                                                        \
  do {                                                                                          \
    cudaError_t status = (call);                                                                \
    if (status != cudaSuccess) {                                                                \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(status));    \
      std::exit(2);                                                                             \
    }                                                                                           \
  } while (0)

namespace harness {

inline long checks = 0, failures = 0;

/// Small problems, for runs under a sanitizer.
inline bool quick() { return std::getenv("TILEFOUNDRY_QUICK") != nullptr; }

inline void expect(bool ok, std::string const& what) {
  ++checks;
  if (ok) return;
  if (++failures <= 20) std::printf("FAILED: %s\n", what.c_str());
}

inline int finish(char const* name) {
  CHECK_CUDA(cudaDeviceSynchronize());
  std::printf("%s: %ld checks, %ld failures\n", name, checks, failures);
  return failures == 0 ? 0 : 1;
}

/// Host value of any element type, through double.
template <class T>
double value_of(T x) {
  return static_cast<double>(tilefoundry::widen(x));
}

/// std::vector<bool> packs bits; results of bool are read as bytes.
template <class T>
using stored_t = std::conditional_t<std::is_same<T, bool>::value, uint8_t, T>;

/// Device memory between two guard bands. The body starts poisoned (all bits set: NaN, or -1), the bands hold a
/// pattern that `guards_intact` looks for. `offset` elements shift the start, for misaligned views.
template <class T>
struct Buffer {
  static constexpr size_t band = 256;
  size_t count, offset;
  unsigned char* raw = nullptr;

  explicit Buffer(size_t n, size_t off = 0) : count(n), offset(off) {
    CHECK_CUDA(cudaMalloc(&raw, bytes()));
    std::vector<unsigned char> fill(bytes(), 0xA5);
    std::memset(fill.data() + begin(), 0xFF, n * sizeof(T));
    CHECK_CUDA(cudaMemcpy(raw, fill.data(), bytes(), cudaMemcpyHostToDevice));
  }
  Buffer(std::vector<stored_t<T>> const& host, size_t off = 0) : Buffer(host.size(), off) {
    CHECK_CUDA(cudaMemcpy(data(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  Buffer(Buffer const&) = delete;
  ~Buffer() { cudaFree(raw); }

  size_t begin() const { return band + offset * sizeof(T); }
  size_t bytes() const { return begin() + count * sizeof(T) + band; }
  T* data() const { return reinterpret_cast<T*>(raw + begin()); }

  std::vector<stored_t<T>> host() const {
    std::vector<stored_t<T>> out(count);
    CHECK_CUDA(cudaDeviceSynchronize());
    if (count) CHECK_CUDA(cudaMemcpy(out.data(), data(), count * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }
  bool guards_intact() const {
    std::vector<unsigned char> all(bytes());
    CHECK_CUDA(cudaMemcpy(all.data(), raw, bytes(), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < all.size(); ++i)
      if ((i < begin() || i >= begin() + count * sizeof(T)) && all[i] != 0xA5) return false;
    return true;
  }
};

/// Deterministic uniform numbers in [low, high).
struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed * 2654435769u + 88172645463325252ull) {}
  double next(double low, double high) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return low + (high - low) * static_cast<double>(state >> 11) / 9007199254740992.0;
  }
  template <class T>
  std::vector<T> values(size_t n, double low, double high) {
    std::vector<T> out(n);
    for (auto& x : out) x = tilefoundry::convert<T>(next(low, high));
    return out;
  }
};

/// Half the distance of neighbours of `x` in T, relative: what one rounding may change.
template <class T>
double unit() {
  using namespace tilefoundry;
  if (std::is_same<T, double>::value) return 1.2e-16;
  if (std::is_same<T, float>::value) return 6e-8;
  if (std::is_same<T, f16>::value) return 4.9e-4;
  if (std::is_same<T, bf16>::value) return 3.92e-3;
  if (std::is_same<T, fp8e4m3>::value) return 0.0626;
  if (std::is_same<T, fp8e5m2>::value) return 0.1251;
  return 0;
}

/// Equal infinities and NaNs on both sides are equal; everything else within absolute plus relative bounds.
inline bool near(double got, double want, double absolute, double relative) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return got == want;
  return std::fabs(got - want) <= absolute + relative * std::fabs(want);
}

inline std::string describe(std::string const& what, double got, double want) {
  char text[64];
  std::snprintf(text, sizeof(text), ": got %.9g, want %.9g", got, want);
  return what + text;
}

}  // namespace harness
