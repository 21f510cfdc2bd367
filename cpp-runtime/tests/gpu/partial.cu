// Reductions whose operands are described in other ways: logical axes that the canonical shape factors, partial
// values, a cute::Tensor with a ShardLayout, results in shared memory, a workspace that is a tensor.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::cta>() noexcept {
  return cute::Shape<cute::Int<8>>{};
}
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<64>>{};
}
}  // namespace tilefoundry

#include "harness.h"

using namespace tilefoundry;
using harness::Buffer;
namespace ct = cute;

/// Logical (8, 1536): rows over blocks, columns over 64 threads as (3, 64, 8). Reduced by its logical axis 1.
template <class Op>
__global__ void by_logical_axis(float const* in, float* out) {
  auto mesh = make_mesh<TopologyScope::cta, TopologyScope::thread>(
      ct::make_layout(ct::Shape<ct::Int<8>, ct::Int<64>>{}, ct::LayoutRight{}));
  auto logical = ct::make_layout(ct::Shape<ct::Int<8>, ct::Int<1536>>{}, ct::LayoutRight{});
  auto canonical = ct::make_layout(ct::Shape<ct::Int<8>, ct::Int<3>, ct::Int<64>, ct::Int<8>>{}, ct::LayoutRight{});
  auto src = make_shard_tensor(as_gmem(in, logical), logical,
                               make_shard_layout(canonical, ct::make_tuple(shard::S<0>{}, shard::S<2>{}), mesh));
  auto rows = ct::make_layout(ct::Shape<ct::Int<8>>{});
  auto dst = make_shard_tensor(as_gmem(out, rows), rows,
                               make_shard_layout(rows, ct::make_tuple(shard::S<0>{}, shard::B{}), mesh));
  using Axes = ops::axes<1>;
  constexpr int bytes = ops::reduce_workspace_bytes<Op, Axes, decltype(src), decltype(dst)>();
  static_assert(bytes == 2 * sizeof(float), "one slot for each of two warps");
  __shared__ alignas(16) float memory[2];
  auto workspace = ct::make_tensor(ct::make_smem_ptr(memory), ct::Layout<ct::Int<2>>{});
  ops::reduce<Op, Axes>(src, dst, workspace);
}

/// Each thread holds a partial over its columns; combining the partials needs no reduced axis.
template <class Op>
__global__ void of_partials(float const* in, float* out, float* by_tensor) {
  auto mesh = make_mesh<TopologyScope::cta, TopologyScope::thread>(
      ct::make_layout(ct::Shape<ct::Int<8>, ct::Int<64>>{}, ct::LayoutRight{}));
  auto rows = ct::make_layout(ct::Shape<ct::Int<8>>{});
  auto in_registers = ct::make_layout(ct::Shape<ct::Int<8>>{}, ct::Stride<ct::Int<0>>{});
  auto columns = as_gmem(in + blockIdx.x * 1536 + threadIdx.x * 24, ct::Layout<ct::Int<24>>{});
  auto partial = make_shard_tensor(
      ct::make_tensor<float>(ct::Int<1>{}), rows,
      make_shard_layout(in_registers, ct::make_tuple(shard::S<0>{}, shard::P<Op>{}), mesh));
  auto own = local(partial);
  ops::reduce<Op, ops::axes<0>>(columns, own);  // plain: inside the thread
  __shared__ float result[1];
  auto shared = make_shard_tensor(
      ct::make_tensor(ct::make_smem_ptr(result), ct::Layout<ct::Int<1>>{}), rows,
      make_shard_layout(in_registers, ct::make_tuple(shard::S<0>{}, shard::B{}), mesh));
  __shared__ alignas(16) unsigned char workspace[2 * sizeof(float)];
  ops::reduce<Op, ops::axes<>>(partial, shared, workspace);
  ops::sync<ops::SyncKind::cta>();
  if (threadIdx.x == 0) out[blockIdx.x] = result[0];

  // The same row as a cute::Tensor whose layout is a ShardLayout; its logical axes are the canonical ones.
  auto canonical = ct::make_layout(ct::Shape<ct::Int<8>, ct::Int<64>, ct::Int<24>>{}, ct::LayoutRight{});
  auto tensor = ct::make_tensor(ct::make_gmem_ptr(in),
                                make_shard_layout(canonical, ct::make_tuple(shard::S<0>{}, shard::S<1>{}), mesh));
  auto again = ct::make_tensor<float>(ct::Int<1>{});
  ops::reduce<Op, ops::axes<1, 2>>(tensor, again, workspace);
  by_tensor[blockIdx.x * 64 + threadIdx.x] = again(0);
}

template <class Op, class Oracle>
void check(char const* name, Oracle oracle) {
  auto in = harness::Random(4).values<float>(8 * 1536, -3, 1);
  Buffer<float> src(in), logical(8), combined(8), tensor(8 * 64);
  by_logical_axis<Op><<<8, 64>>>(src.data(), logical.data());
  of_partials<Op><<<8, 64>>>(src.data(), combined.data(), tensor.data());
  CHECK_CUDA(cudaGetLastError());
  auto a = logical.host(), b = combined.host(), c = tensor.host();
  for (int row = 0; row < 8; ++row) {
    const double want = oracle(in.data() + row * 1536);
    harness::expect(harness::near(a[row], want, 1e-6, 1e-5), harness::describe(std::string(name) + " by logical axis", a[row], want));
    harness::expect(harness::near(b[row], want, 1e-6, 1e-5), harness::describe(std::string(name) + " of partials", b[row], want));
    for (int t = 0; t < 64; ++t)
      harness::expect(harness::near(c[row * 64 + t], want, 1e-6, 1e-5),
                      harness::describe(std::string(name) + " of a tensor", c[row * 64 + t], want));
  }
  harness::expect(logical.guards_intact() && combined.guards_intact() && tensor.guards_intact(), "guard bytes changed");
}

int main() {
  auto sum = [](float const* row) {
    double total = 0;
    for (int i = 0; i < 1536; ++i) total += row[i];
    return total;
  };
  check<ops::sum_op>("sum", sum);
  check<ops::mean_op>("mean", [&](float const* row) { return sum(row) / 1536; });
  check<ops::max_op>("max", [](float const* row) {
    double top = row[0];
    for (int i = 1; i < 1536; ++i) top = std::fmax(top, row[i]);
    return top;
  });
  check<ops::absmax_op>("absmax", [](float const* row) {
    double top = 0;
    for (int i = 0; i < 1536; ++i) top = std::fmax(top, std::fabs(row[i]));
    return top;
  });
  return harness::finish("partial");
}
