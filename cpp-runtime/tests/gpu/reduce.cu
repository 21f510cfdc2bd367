// Every reduction tier by op by dtype, against double sums on the host.
#include <tilefoundry/runtime.h>

#if !defined(MESH0) || !defined(MESH1) || !defined(MESH2)
#error "compile once per block size: -DMESH0=... -DMESH1=... -DMESH2=..."
#endif

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<MESH0 * MESH1 * MESH2>>{};
}
}  // namespace tilefoundry

#include "harness.h"

using namespace tilefoundry;
using harness::Buffer;
namespace ct = cute;

constexpr int kThreads = MESH0 * MESH1 * MESH2, kLocal = 4, kKept = 3, kBlocks = 3;

template <int E0, int E1, int E2, bool R0, bool R1, bool R2>
struct Case {
  static constexpr int extent[3] = {E0, E1, E2};
  // Canonical source: blocks, three thread axes, elements that a thread folds, elements that it keeps.
  using G = ct::Shape<int, ct::Int<E0>, ct::Int<E1>, ct::Int<E2>, ct::Int<kLocal>, ct::Int<kKept>>;
  using H = ct::Shape<int, ct::Int<R0 ? 1 : E0>, ct::Int<R1 ? 1 : E1>, ct::Int<R2 ? 1 : E2>, ct::Int<kKept>>;
  template <bool R, int K>
  using attr = ct::conditional_t<R, shard::B, shard::S<K>>;
  using SrcAttrs = ct::tuple<shard::S<0>, shard::S<1>, shard::S<2>, shard::S<3>>;
  using DstAttrs = ct::tuple<shard::S<0>, attr<R0, 1>, attr<R1, 2>, attr<R2, 3>>;
};

template <class C>
struct ReducedAxes;
template <int E0, int E1, int E2, bool R0, bool R1, bool R2>
struct ReducedAxes<Case<E0, E1, E2, R0, R1, R2>> {
  using type = ops::axes<R0 ? 1 : 4, R1 ? 2 : 4, R2 ? 3 : 4, 4>;
};

template <class Op, class C, class T, class D>
__global__ void kernel(T const* src, D* dst, D* in_registers) {
  auto layout = ct::make_layout(ct::make_shape(int(gridDim.x), ct::Int<C::extent[0]>{}, ct::Int<C::extent[1]>{}, ct::Int<C::extent[2]>{}),
                                ct::LayoutRight{});
  auto mesh = make_mesh<TopologyScope::cta, TopologyScope::thread>(layout);
  typename C::G g;
  ct::get<0>(g) = gridDim.x;
  typename C::H h;
  ct::get<0>(h) = gridDim.x;
  auto gl = ct::make_layout(g, ct::LayoutRight{});
  auto hl = ct::make_layout(h, ct::LayoutRight{});
  auto s = make_shard_tensor(as_gmem(src, gl), gl, make_shard_layout(gl, typename C::SrcAttrs{}, mesh));
  auto d = make_shard_tensor(as_gmem(dst, hl), hl, make_shard_layout(hl, typename C::DstAttrs{}, mesh));
  using Axes = typename ReducedAxes<C>::type;
  constexpr int bytes = ops::reduce_workspace_bytes<Op, Axes, decltype(s), decltype(d)>();
  auto own = ct::make_tensor<D>(ct::Int<kKept>{});
  if constexpr (bytes > 0) {
    __shared__ alignas(16) unsigned char workspace[bytes];
    ops::reduce<Op, Axes>(s, d, workspace);
    ops::reduce<Op, Axes>(s, own, workspace);
  } else {
    ops::reduce<Op, Axes>(s, d);
    ops::reduce<Op, Axes>(s, own);
  }
  // Every thread's own copy, to see that the result is valid, with equal bits, in all of them.
  for (int k = 0; k < kKept; ++k) in_registers[(blockIdx.x * kThreads + threadIdx.x) * kKept + k] = own(k);
}

struct Oracle {
  long double sum = 0;
  double top = -INFINITY, bottom = INFINITY, magnitude = -INFINITY, absolute = 0;
  int count = 0;
  void add(double x) {
    auto join = [](double a, double b, bool larger) { return std::isnan(a) || std::isnan(b) ? NAN : larger == (a > b) ? a : b; };
    sum += x, absolute += std::fabs(x), ++count;
    top = join(top, x, true), bottom = join(bottom, x, false), magnitude = join(magnitude, std::fabs(x), true);
  }
  template <class Op>
  double of() const {
    if (std::is_same<Op, ops::sum_op>::value) return double(sum);
    if (std::is_same<Op, ops::mean_op>::value) return double(sum / count);
    if (std::is_same<Op, ops::max_op>::value) return top;
    if (std::is_same<Op, ops::min_op>::value) return bottom;
    return magnitude;
  }
};

template <class Op, class C, class T, class D, bool R0, bool R1, bool R2>
void check(char const* name, double low, double high, bool nan) {
  constexpr int e[3] = {C::extent[0], C::extent[1], C::extent[2]};
  constexpr int groups[3] = {R0 ? 1 : e[0], R1 ? 1 : e[1], R2 ? 1 : e[2]};
  const int results = kBlocks * groups[0] * groups[1] * groups[2] * kKept;
  auto in = harness::Random(kThreads).values<T>(size_t(kBlocks) * kThreads * kLocal * kKept, low, high);
  if constexpr (is_real_v<T>)
    if (nan) in[in.size() / 2] = convert<T>(NAN);
  Buffer<T> src(in);
  Buffer<D> dst(results), own(size_t(kBlocks) * kThreads * kKept);
  kernel<Op, C><<<kBlocks, kThreads>>>(src.data(), dst.data(), own.data());
  CHECK_CUDA(cudaGetLastError());
  auto out = dst.host(), mine = own.host();
  std::vector<Oracle> oracle(results);
  auto result_of = [&](int b, int t, int k) {
    const int t0 = t / (e[1] * e[2]), t1 = t / e[2] % e[1], t2 = t % e[2];
    return (((b * groups[0] + (R0 ? 0 : t0)) * groups[1] + (R1 ? 0 : t1)) * groups[2] + (R2 ? 0 : t2)) * kKept + k;
  };
  for (int b = 0; b < kBlocks; ++b)
    for (int t = 0; t < kThreads; ++t)
      for (int i = 0; i < kLocal * kKept; ++i)
        oracle[result_of(b, t, i % kKept)].add(harness::value_of(in[(size_t(b) * kThreads + t) * kLocal * kKept + i]));
  for (int r = 0; r < results; ++r) {
    const double want = oracle[r].of<Op>(), got = harness::value_of(out[r]);
    const double scale = std::is_same<Op, ops::mean_op>::value ? 1.0 / oracle[r].count : 1.0;
    const double sums = (std::is_same<T, double>::value ? 2e-15 : is_real_v<T> ? 3e-7 : 0.0) * oracle[r].absolute * scale;
    harness::expect(harness::near(got, want, sums, 1.01 * harness::unit<D>()), harness::describe(name, got, want));
  }
  for (int b = 0; b < kBlocks; ++b)
    for (int t = 0; t < kThreads; ++t)
      for (int k = 0; k < kKept; ++k)
        harness::expect(std::memcmp(&mine[(b * kThreads + t) * kKept + k], &out[result_of(b, t, k)], sizeof(D)) == 0,
                        std::string(name) + ": a thread's own copy differs from what was written");
  harness::expect(dst.guards_intact() && own.guards_intact(), std::string(name) + ": guard bytes changed");
}

template <class C, bool R0, bool R1, bool R2, class T, class D>
void all_ops(char const* name, double low, double high) {
  for (bool nan : {false, true}) {
    if (nan && !is_real_v<T>) continue;
    check<ops::sum_op, C, T, D, R0, R1, R2>(name, low, high, nan);
    if constexpr (is_real_v<D>) check<ops::mean_op, C, T, D, R0, R1, R2>(name, low, high, nan);
    check<ops::max_op, C, T, D, R0, R1, R2>(name, low, high, nan);
    check<ops::min_op, C, T, D, R0, R1, R2>(name, low, high, nan);
    check<ops::absmax_op, C, T, D, R0, R1, R2>(name, low, high, nan);
  }
}

template <bool R0, bool R1, bool R2, int E0, int E1, int E2>
void all_types(ct::seq<E0, E1, E2>) {
  using C = Case<E0, E1, E2, R0, R1, R2>;
  const std::string shape = std::to_string(E0) + "x" + std::to_string(E1) + "x" + std::to_string(E2) + " reduce " +
                            std::to_string(R0) + std::to_string(R1) + std::to_string(R2);
  all_ops<C, R0, R1, R2, float, float>((shape + " f32").c_str(), -3, 1);
  all_ops<C, R0, R1, R2, bf16, bf16>((shape + " bf16").c_str(), -3, 1);
  all_ops<C, R0, R1, R2, int32_t, int32_t>((shape + " i32").c_str(), -90, 30);
#ifdef ALL_TYPES
  all_ops<C, R0, R1, R2, f16, float>((shape + " f16").c_str(), -3, 1);
  all_ops<C, R0, R1, R2, double, double>((shape + " f64").c_str(), -3, 1);
  all_ops<C, R0, R1, R2, int8_t, int64_t>((shape + " i8").c_str(), -90, 30);
  all_ops<C, R0, R1, R2, fp8e4m3, float>((shape + " fp8e4m3").c_str(), -3, 1);
#endif
}

int main() {
  using Shape = ct::seq<MESH0, MESH1, MESH2>;
  all_types<false, false, true>(Shape{});
  all_types<false, true, false>(Shape{});
  all_types<true, false, false>(Shape{});
  all_types<true, false, true>(Shape{});
  all_types<true, true, true>(Shape{});
  return harness::finish("reduce");
}
