// ops::select: tiles of two values by a condition, elementwise, by a row and against one value; exact, NaN and infinity too.
#include <tilefoundry/runtime.h>

#include "tiles.h"

using namespace tilefoundry;
using harness::Buffer;
namespace ct = cute;

/// Per thread a tile of 8, the tail by a dynamic extent.
template <class C, class A, class B, class D>
__global__ void by_element(C const* c, A const* a, B const* b, D* d, int n) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * kPerThread;
  auto apply = [&](auto layout) {
    auto out = as_gmem(d + at, layout);
    ops::select(as_gmem(c + at, layout), as_gmem(a + at, layout), as_gmem(b + at, layout), out);
  };
  if (at + kPerThread <= n) apply(ct::Layout<ct::Int<kPerThread>>{});
  else if (at < n) apply(ct::make_layout(n - at));
}

/// A tile of 4 rows by 8: the condition repeats over columns, the second value over rows, the first not at all.
template <class C, class A, class B, class D>
__global__ void by_row(C const* c, A const* a, B const* b, D* d, int rows) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (at + 4 > rows) return;
  using Tile = ct::Layout<ct::Shape<ct::Int<4>, ct::Int<8>>, ct::Stride<ct::Int<8>, ct::Int<1>>>;
  using PerRow = ct::Layout<ct::Shape<ct::Int<4>, ct::Int<1>>, ct::Stride<ct::Int<1>, ct::Int<0>>>;
  using PerColumn = ct::Layout<ct::Shape<ct::Int<1>, ct::Int<8>>, ct::Stride<ct::Int<0>, ct::Int<1>>>;
  auto out = as_gmem(d + at * 8, Tile{});
  ops::select(as_gmem(c + at, PerRow{}), as_gmem(a + at * 8, Tile{}), as_gmem(b, PerColumn{}), out);
}

/// One value in a register against a tile.
template <class C, class A, class D>
__global__ void against_value(C const* c, A const* a, D* d, int n, float other) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * kPerThread;
  if (at + kPerThread > n) return;
  auto value = ct::make_tensor<float>(ct::Int<1>{});
  value(0) = other;
  using Tile = ct::Layout<ct::Int<kPerThread>>;
  auto out = as_gmem(d + at, Tile{});
  ops::select(as_gmem(c + at, Tile{}), as_gmem(a + at, Tile{}), value, out);
}

template <class T>
bool same(T x, T y) {
  return harness::near(harness::value_of(x), harness::value_of(y), 0, 0);
}

template <class C, class A, class B, class D>
void check(std::string const& name) {
  for (int n : sizes())
    for (size_t shift : {0, 1}) {
      const int padded = (n + 7) / 8 * 8;
      auto c = harness::Random(n).values<harness::stored_t<C>>(padded, 0, 2);
      auto a = harness::Random(n + 1).values<A>(size_t(padded) * 8, -9, 9);
      auto b = harness::Random(n + 2).values<B>(size_t(padded) * 8, -9, 9);
      if (is_real_v<A>) a[0] = convert<A>(std::nanf("")), a[n - 1] = convert<A>(INFINITY);
      Buffer<C> dc(c, shift);
      Buffer<A> da(a, shift);
      Buffer<B> db(b, shift);
      Buffer<D> each(n, shift), rows(size_t(padded) * 8, shift), single(n, shift);
      const int blocks = (n + 64 * kPerThread - 1) / (64 * kPerThread);
      by_element<C><<<blocks, 64>>>(dc.data(), da.data(), db.data(), each.data(), n);
      by_row<C><<<blocks * 2, 64>>>(dc.data(), da.data(), db.data(), rows.data(), padded);
      against_value<C><<<blocks, 64>>>(dc.data(), da.data(), single.data(), n, 2.5f);
      CHECK_CUDA(cudaGetLastError());
      auto got = each.host(), rowed = rows.host(), valued = single.host();
      auto want = [&](bool first, A x, B y) { return first ? convert<D>(widen(x)) : convert<D>(widen(y)); };
      for (int i = 0; i < n; ++i)
        harness::expect(same<D>(got[i], want(c[i] != 0, a[i], b[i])), name + " n=" + std::to_string(n));
      for (int i = 0; i < padded * 8; ++i)
        harness::expect(same<D>(rowed[i], want(c[i / 8] != 0, a[i], b[i % 8])), name + " by row");
      for (int i = 0; i < n / kPerThread * kPerThread; ++i)
        harness::expect(same<D>(valued[i], c[i] != 0 ? convert<D>(widen(a[i])) : convert<D>(2.5f)), name + " against a value");
      harness::expect(each.guards_intact() && rows.guards_intact() && single.guards_intact(), name + ": guard bytes changed");
    }
}

int main() {
  check<bool, float, float, float>("select f32");
  check<bool, bf16, bf16, bf16>("select bf16");
  check<bool, bf16, float, float>("select bf16 or f32");
  check<uint8_t, int32_t, int32_t, int32_t>("select i32 by bytes");
  check<int32_t, double, double, double>("select f64 by words");
  check<bool, fp8e4m3, fp8e4m3, f16>("select fp8e4m3 into f16");
  return harness::finish("select");
}
