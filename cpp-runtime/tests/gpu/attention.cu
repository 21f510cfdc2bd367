// ops::attention: masks, caps, lengths, grouped heads, strided views, alone and in clusters, against float64 on the host.
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

#include "views.h"

using namespace tilefoundry;
using namespace views;
using harness::Buffer;
using harness::value_of;

template <class T, class I, class Form>
struct Arguments {
  View<T const, 4> q, k, v;
  View<I const, 1> lengths;
  View<T, 4> dst;
  Form form;
};

template <class T, class I, class Form>
__device__ void attend(Arguments<T, I, Form> const& a) {
  if (a.lengths.data == nullptr) {
    ops::attention(a.q, a.k, a.v, ops::AllKeys{}, a.dst, a.form);
  } else {
    ops::attention(a.q, a.k, a.v, a.lengths, a.dst, a.form);
  }
}
template <class T, class I, class Form>
__global__ void __launch_bounds__(THREADS) attention_kernel(Arguments<T, I, Form> a) {
  attend(a);
}

/// Launch in clusters of `together` blocks.
template <class A>
void launch(void (*kernel)(A), int blocks, unsigned together, A const& given) {
  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attribute{};
  config.gridDim = dim3(blocks), config.blockDim = dim3(THREADS);
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {together, 1, 1};
  config.attrs = &attribute, config.numAttrs = together > 1 ? 1 : 0;
  CHECK_CUDA(cudaLaunchKernelEx(&config, kernel, given));
}
/// Whether the code was built for chips with clusters.
#if defined(CLUSTERS)
constexpr unsigned kMost = 8;
#else
constexpr unsigned kMost = 1;
#endif

/// Extents of one problem, and what hides keys.
struct Problem {
  index_t batch, heads, shared, queries, keys;
  double softcap = 0;
  index_t window = 0;
  bool causal = false;
  std::vector<int32_t> lengths = {};
  bool swapped = false;  ///< heads inside of lengths in memory, as caches have them
};

template <class T>
struct Operand {
  Place<4> place;
  std::vector<harness::stored_t<T>> host;
  Buffer<T> device;

  Operand(index_t const (&shape)[4], bool swapped, uint64_t seed, size_t offset)
      : place(swapped ? views::place<4>(shape, {0, 2, 1, 3}) : dense<4>(shape)),
        host(values<T>(place, seed, -2, 2)), device(host, offset) {}
  double at(index_t b, index_t h, index_t i, index_t e) const {
    return value_of(host[b * place.stride[0] + h * place.stride[1] + i * place.stride[2] + e * place.stride[3]]);
  }
};

/// The exact result for one query, from values widened to float64.
template <class T>
std::vector<double> exact(Problem const& p, Operand<T> const& q, Operand<T> const& k, Operand<T> const& v, double scale,
                          int dim, int width, index_t b, index_t h, index_t s) {
  const index_t g = h / (p.heads / p.shared);
  const index_t length = p.lengths.empty() ? p.keys : index_t(p.lengths[p.lengths.size() == 1 ? 0 : b]);
  const index_t position = length - p.queries + s;
  std::vector<double> out(width, 0.0), score;
  std::vector<index_t> seen;
  for (index_t j = 0; j < length; ++j) {
    if (p.causal && (j > position || (p.window > 0 && j <= position - p.window))) continue;
    double sum = 0;
    for (int e = 0; e < dim; ++e) sum += q.at(b, h, s, e) * k.at(b, g, j, e);
    sum *= scale;
    score.push_back(p.softcap > 0 ? p.softcap * std::tanh(sum / p.softcap) : sum);
    seen.push_back(j);
  }
  double top = -INFINITY, total = 0;
  for (double x : score) top = std::max(top, x);
  for (size_t i = 0; i < seen.size(); ++i) {
    const double weight = std::exp(score[i] - top);
    total += weight;
    for (int e = 0; e < width; ++e) out[e] += weight * v.at(b, g, seen[i], e);
  }
  for (double& x : out) x = seen.empty() ? 0 : x / total;
  return out;
}

template <class T, int Dim, int Width, int Rows>
void check(std::string const& name, Problem const& p, size_t offset = 0) {
  Operand<T> q({p.batch, p.heads, p.queries, Dim}, p.swapped, 1, offset);
  Operand<T> k({p.batch, p.shared, p.keys, Dim}, p.swapped, 2, offset);
  Operand<T> v({p.batch, p.shared, p.keys, Width}, p.swapped, 3, offset);
  auto dp = dense<4>({p.batch, p.heads, p.queries, Width}, p.swapped ? 2 : 1);
  Buffer<int32_t> lengths(p.lengths);
  const View<int32_t const, 1> by_batch{p.lengths.empty() ? nullptr : lengths.data(),
                                        {p.batch},
                                        {p.lengths.size() > 1 ? 1 : 0}};
  using Form = ops::AttentionForm<Dim, Width, Rows, THREADS>;
  const double scale = 1 / std::sqrt(double(Dim));
  std::vector<std::vector<double>> want;
  for (index_t b = 0; b < p.batch; ++b)
    for (index_t h = 0; h < p.heads; ++h)
      for (index_t s = 0; s < p.queries; ++s) want.push_back(exact(p, q, k, v, scale, Dim, Width, b, h, s));
  for (int blocks : {1, 3, 8, 24}) {
    Buffer<T> dst(dp.span);
    const Arguments<T, int32_t, Form> given{q.place.template on<T const>(q.device.data()),
                                            k.place.template on<T const>(k.device.data()),
                                            v.place.template on<T const>(v.device.data()),
                                            by_batch,
                                            dp.on(dst.data()),
                                            Form{ops::Scores{scale, p.softcap, p.window, p.causal}}};
    launch(attention_kernel<T, int32_t, Form>, blocks, blocks % 8 == 0 ? kMost : 1, given);
    const double bound = std::is_same<T, double>::value ? 1e-13 : 2e-5;
    compare<T>("attention " + name, dst, dp, bound, bound + 1.01 * harness::unit<T>(), [&](index_t, index_t const* c) {
      return want[(c[0] * p.heads + c[1]) * p.queries + c[2]][c[3]];
    });
  }
}

/// Problems of one form, as a step over a cache and as the first pass over a prompt.
template <class T, int Dim, int Width, int Rows>
void forms(std::string const& name) {
  check<T, Dim, Width, Rows>(name + " one key", {1, 1, 1, 1, 1});
  check<T, Dim, Width, Rows>(name + " a step over a cache", {2, 4, 2, 1, 77, 0, 0, true, {33, 77}, true});
  check<T, Dim, Width, Rows>(name + " window and cap", {1, 2, 1, 9, 40, 3.0, 7, true});
  check<T, Dim, Width, Rows>(name + " odd addresses", {1, 3, 3, 2, 21}, 1);
  check<T, Dim, Width, Rows>(name + " nothing seen", {1, 2, 1, 6, 9, 0, 0, true, {3}});
  check<T, Dim, Width, Rows>(name + " no keys", {2, 2, 1, 1, 9, 0, 0, false, {0, 9}});
  if (harness::quick()) return;
  check<T, Dim, Width, Rows>(name + " long", {1, 4, 2, 1, 3001, 0, 0, true, {2500}});
  check<T, Dim, Width, Rows>(name + " many queries", {2, 8, 1, 33, 300, 0, 128, true});
}

int main() {
  forms<bf16, 128, 128, 2>("bf16 128");
  forms<bf16, 64, 80, 8>("bf16 64 by 80");
  forms<f16, 192, 128, 4>("f16 192 by 128");
  forms<float, 7, 70, 2>("f32 7 by 70");
  forms<float, 256, 256, 1>("f32 256");
  forms<double, 16, 16, 2>("f64 16");
  return harness::finish("attention");
}
