// ops::attention by tiles against the plain formula in double on the host: every tier, dims that do not fill a tile,
// heads that share keys, masks, lengths from device memory, operands that are computed, keys in parts. Every element is
// handed over once, and twice the same bits.
#include <tilefoundry/runtime.h>

#ifndef THREADS
#error "compile once per block size: -DTHREADS=..."
#endif

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<THREADS>>{};
}
}  // namespace tilefoundry

#include <algorithm>

#include "harness.h"

using namespace tilefoundry;
using harness::Buffer;

/// Shared memory of a launch: as much as any tier of such blocks takes.
constexpr int shared_bytes = THREADS == 384 ? 220 * 1024 : 0;

/// Extents and masks of one problem; `length` below 0: all keys.
struct Problem {
  int batch, heads, shared, queries, keys, length;
  ops::Scores scores;
  bool computed;
};

/// What a computed operand makes of an element in memory.
template <class T>
CUTE_HOST_DEVICE T halved(T x) {
  return convert<T>(widen(x) * decltype(widen(x))(0.5));
}

template <class T, int Dim, int Width, int Parts, class Sum>
__global__ void __launch_bounds__(THREADS)
    kernel(T const* q, T const* k, T const* v, int64_t const* lengths, Sum* out, int* times, Sum* partial, unsigned* barrier,
           Problem p) {
  const ops::HeadsInMemory<T const> queries{q, {p.heads * p.queries * Dim, p.queries * Dim, Dim, 1}};
  // Keys lie with their heads side by side.
  const ops::HeadsInMemory<T const> keys{k, {p.keys * p.shared * Dim, Dim, p.shared * Dim, 1}};
  const ops::HeadsInMemory<T const> values{v, {p.shared * p.keys * Width, p.keys * Width, Width, 1}};
  auto const made = ops::computed_heads<T>([=](int b, int h, int i, int e) { return halved(T(keys.load(b, h, i, e))); });
  auto const store = [&](int b, int h, int s, int e, Sum value) {
    const int at = ((b * p.heads + h) * p.queries + s) * Width + e;
    out[at] = value;
    atomicAdd(times + at, 1);
  };
  auto const run = [&](auto const& own_keys, auto const& counts) {
    auto const task = ops::attention_task<Dim, Width, Parts>(queries, own_keys, values, counts, p.batch, p.heads, p.shared,
                                                             p.queries, p.keys, p.scores);
#if THREADS == 384
    TILEFOUNDRY_DYNAMIC_SHARED(workspace);
#else
    constexpr int bytes = ops::attention_workspace_bytes<decltype(task), THREADS>();
    __shared__ alignas(1024) unsigned char workspace[bytes];
#endif
    ops::attention<THREADS>(task, workspace, store, partial, barrier);
  };
  if (p.computed) {
    run(made, ops::AllKeys{});
  } else if (p.length < 0) {
    run(keys, ops::AllKeys{});
  } else {
    run(keys, ops::KeyCounts<int64_t const>{lengths, 1});
  }
}

template <class T, int Dim, int Width>
std::vector<double> wanted(std::vector<harness::stored_t<T>> const& q, std::vector<harness::stored_t<T>> const& k,
                           std::vector<harness::stored_t<T>> const& v, std::vector<int64_t> const& lengths, Problem const& p) {
  std::vector<double> out(size_t(p.batch) * p.heads * p.queries * Width, 0.0);
  for (int b = 0; b < p.batch; ++b)
    for (int h = 0; h < p.heads; ++h)
      for (int s = 0; s < p.queries; ++s) {
        const int g = h / (p.heads / p.shared), length = int(lengths[b]), position = length - p.queries + s;
        int from = 0, to = length;
        if (p.scores.causal) to = std::min(to, position + 1);
        if (p.scores.window > 0) from = std::max(from, position - int(p.scores.window) + 1);
        std::vector<double> score;
        double top = -1e300, total = 0;
        for (int i = from; i < to; ++i) {
          double dot = 0;
          for (int d = 0; d < Dim; ++d) {
            T key = k[((size_t(b) * p.keys + i) * p.shared + g) * Dim + d];
            if (p.computed) key = halved(key);
            dot += harness::value_of(q[((size_t(b) * p.heads + h) * p.queries + s) * Dim + d]) * harness::value_of(key);
          }
          dot *= p.scores.scale;
          if (p.scores.softcap != 0) dot = p.scores.softcap * std::tanh(dot / p.scores.softcap);
          score.push_back(dot), top = std::max(top, dot);
        }
        double* const row = &out[((size_t(b) * p.heads + h) * p.queries + s) * Width];
        for (int i = from; i < to; ++i) {
          const double weight = std::exp(score[i - from] - top);
          total += weight;
          for (int e = 0; e < Width; ++e)
            row[e] += weight * harness::value_of(v[((size_t(b) * p.shared + g) * p.keys + i) * Width + e]);
        }
        for (int e = 0; e < Width && to > from; ++e) row[e] /= total;
      }
  return out;
}

template <class T, int Dim, int Width, int Parts>
void check(char const* name, Problem p, int blocks) {
  using Sum = accumulate_t<T>;
  auto q = harness::Random(Dim).values<T>(size_t(p.batch) * p.heads * p.queries * Dim, -2, 2);
  auto k = harness::Random(p.keys).values<T>(size_t(p.batch) * p.shared * p.keys * Dim, -2, 2);
  auto v = harness::Random(Width).values<T>(size_t(p.batch) * p.shared * p.keys * Width, -2, 2);
  std::vector<int64_t> lengths(p.batch, p.keys);
  for (int b = 0; b < p.batch && p.length >= 0 && !p.computed; ++b) lengths[b] = std::min(p.length + b, p.keys);
  const size_t rows = size_t(p.batch) * p.heads * p.queries, size = rows * Width;
  Buffer<T> dq(q), dk(k), dv(v);
  Buffer<int64_t> dl(lengths);
  Buffer<Sum> out(size), again(size), partial(Parts > 1 ? rows * Parts * (Width + 2) : 1);
  Buffer<int> times(std::vector<int>(size, 0)), barrier(std::vector<int>(2, 0));
  auto const launch = [&](Buffer<Sum>& to) {
    T* a[] = {dq.data(), dk.data(), dv.data()};
    int64_t* l = dl.data();
    Sum *o = to.data(), *part = partial.data();
    int *t = times.data(), *pair = barrier.data();
    void* args[] = {&a[0], &a[1], &a[2], &l, &o, &t, &part, &pair, &p};
    auto const* const function = reinterpret_cast<void const*>(&kernel<T, Dim, Width, Parts, Sum>);
    CHECK_CUDA(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    CHECK_CUDA(cudaLaunchCooperativeKernel(function, dim3(blocks), dim3(THREADS), args, shared_bytes, nullptr));
  };
  launch(out);
  launch(again);
  auto want = wanted<T, Dim, Width>(q, k, v, lengths, p);
  auto got = out.host(), second = again.host();
  auto often = times.host();
  const std::string what = std::string(name) + " " + std::to_string(Dim) + "/" + std::to_string(Width) + " " +
                           std::to_string(p.queries) + "x" + std::to_string(p.keys) + " in " + std::to_string(Parts);
  const double unit = std::is_same<T, double>::value ? 1e-14 : 4e-6;
  for (size_t i = 0; i < size; ++i) {
    harness::expect(harness::near(got[i], want[i], unit, unit), harness::describe(what, got[i], want[i]));
    harness::expect(often[i] == 2, what + ": an element was handed over " + std::to_string(often[i]) + " times by two");
    harness::expect(std::memcmp(&got[i], &second[i], sizeof(Sum)) == 0, what + ": other bits the second time");
  }
  harness::expect(out.guards_intact() && times.guards_intact() && partial.guards_intact(), what + ": guard bytes changed");
}

template <class T, int Dim, int Width, int Parts>
void problems(char const* name) {
  const double scale = 1 / std::sqrt(double(Dim));
  auto one = [&](int batch, int heads, int shared, int queries, int keys, int length, double cap, int window, bool causal,
                 bool computed, int blocks) {
    check<T, Dim, Width, Parts>(name, {batch, heads, shared, queries, keys, length, {scale, cap, window, causal}, computed}, blocks);
  };
  one(1, 1, 1, 1, 1, -1, 0, 0, false, false, 1);
  one(2, 4, 2, 9, 70, 66, 0, 0, true, false, 3);
  one(1, 4, 2, 70, 140, -1, 0, 0, true, false, 2);
  one(1, 2, 1, 5, 40, -1, 2.5, 0, false, true, 2);
  if (harness::quick()) return;
  one(2, 2, 2, 70, 200, 5, 0, 0, true, false, 4);    // the first queries see nothing
  one(1, 6, 2, 33, 300, 290, 3, 17, true, false, 7);
  one(3, 2, 1, 1, 500, 0, 0, 0, false, false, 5);    // no key at all, then one, then two
  one(1, 8, 1, 130, 129, -1, 0, 64, true, true, 6);
  one(2, 6, 3, 260, 520, -1, 0, 0, true, false, 5);  // blocks take several tiles of several chunks of keys
  one(1, 4, 4, 150, 300, -1, 2, 0, false, false, 3);
  one(2, 2, 2, 170, 40, -1, 0, 0, true, false, 4);    // the first queries see nothing, some tiles no key at all
}

int main() {
  problems<bf16, 64, 64, 1>("bf16");
  problems<f16, 16, 32, 1>("f16");
  problems<bf16, 128, 128, 3>("bf16");
  problems<bf16, 128, 128, 1>("bf16");
  problems<f16, 64, 128, 1>("f16");
  problems<bf16, 128, 64, 1>("bf16");
  problems<f16, 256, 144, 1>("f16");
  problems<f16, 80, 256, 2>("f16");
  problems<bf16, 20, 64, 1>("bf16, no tile of matrix instructions");
  problems<float, 64, 64, 2>("f32");
  problems<float, 33, 7, 1>("f32");
  problems<double, 24, 40, 2>("f64");
  return harness::finish("attention_tiles");
}
