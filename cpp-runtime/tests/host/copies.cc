// tilefoundry::copy between shards and plain tensors of other shapes, on 2 x 3 mocked instances: prints what lands where.
#include <cstdio>

#include <cute/layout.hpp>

#include <tilefoundry/runtime/cuda/topology.cuh>

namespace tilefoundry {
int cta_now = 0, thread_now = 0;
template <>
constexpr auto program_shape<TopologyScope::cta>() noexcept {
  return cute::Shape<cute::Int<2>>{};
}
template <>
constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<3>>{};
}
template <>
auto program_id<TopologyScope::cta>() noexcept {
  return cta_now;
}
template <>
auto program_id<TopologyScope::thread>() noexcept {
  return thread_now;
}
}  // namespace tilefoundry

#include <tilefoundry/runtime/cuda/copy.cuh>

using namespace tilefoundry;
template <int... N>
using Ints = cute::tuple<cute::Int<N>...>;

constexpr int kElements = 256;

void print(char const* name, char const* direction, int instance, int const* values) {
  std::printf("%s %s %d", name, direction, instance);
  for (int i = 0; i < kElements; ++i) std::printf(" %d", values[i]);
  std::printf("\n");
}

/// Out of the shard and into it. `per_instance`: each instance has a plain tensor of its own, else all share one.
template <class Canonical, class Attrs, class Plain>
void both(char const* name, Canonical const& canonical, Attrs const& attrs, Plain const& plain_layout, bool per_instance) {
  auto mesh = make_mesh<TopologyScope::cta, TopologyScope::thread>(cute::make_layout(Ints<2, 3>{}, cute::LayoutRight{}));
  auto sl = make_shard_layout(canonical, attrs, mesh);
  int numbers[kElements], out[kElements], in[kElements];
  for (int i = 0; i < kElements; ++i) numbers[i] = i, out[i] = in[i] = -1;
  for (int instance = 0; instance < 6; ++instance) {
    cta_now = instance / 3, thread_now = instance % 3;
    if (per_instance)
      for (int i = 0; i < kElements; ++i) out[i] = in[i] = -1;
    auto source = make_shard_tensor(cute::make_tensor(cute::make_gmem_ptr(&numbers[0]), canonical), canonical, sl);
    auto plain = cute::make_tensor(cute::make_gmem_ptr(&out[0]), plain_layout);
    tilefoundry::copy(source, plain);
    auto target = make_shard_tensor(cute::make_tensor(cute::make_gmem_ptr(&in[0]), canonical), canonical, sl);
    auto numbered = cute::make_tensor(cute::make_gmem_ptr(&numbers[0]), plain_layout);
    tilefoundry::copy(numbered, target);
    if (per_instance) print(name, "out", instance, out), print(name, "in", instance, in);
  }
  if (!per_instance) print(name, "out", 0, out), print(name, "in", 0, in);
}

int main() {
  using cute::LayoutLeft;
  using cute::LayoutRight;
  using cute::make_layout;
  using Whole = cute::tuple<shard::B, shard::B>;
  using Split = cute::tuple<shard::S<0>, shard::S<2>>;
  using One = cute::tuple<shard::B, shard::S<1>>;
  auto four = make_layout(Ints<2, 4, 3, 2>{}, LayoutRight{});
  // Nothing split: the whole value, whatever the shapes.
  both("nothing_same", four, Whole{}, make_layout(Ints<2, 4, 3, 2>{}, LayoutRight{}), false);
  both("nothing_flat", four, Whole{}, make_layout(Ints<48>{}), false);
  both("nothing_logical", four, Whole{}, make_layout(Ints<2, 24>{}, LayoutRight{}), false);
  both("nothing_columns", four, Whole{}, make_layout(Ints<8, 6>{}, LayoutLeft{}), false);
  both("nothing_dynamic", four, Whole{}, make_layout(cute::make_shape(48)), false);
  // Split: all instances fill one plain tensor.
  both("whole_logical", four, Split{}, make_layout(Ints<2, 24>{}, LayoutRight{}), false);
  both("whole_columns", four, Split{}, make_layout(Ints<8, 6>{}, LayoutLeft{}), false);
  // Split: each instance has its part, (1, 4, 1, 2), in a plain tensor of its own.
  both("part_same", four, Split{}, make_layout(Ints<1, 4, 1, 2>{}, LayoutRight{}), true);
  both("part_flat", four, Split{}, make_layout(Ints<8>{}), true);
  both("part_rows", four, Split{}, make_layout(Ints<4, 2>{}, LayoutRight{}), true);
  both("part_columns", four, Split{}, make_layout(Ints<2, 4>{}, LayoutLeft{}), true);
  // A shard whose own strides run the other way, and one split axis alone.
  auto left = make_layout(Ints<4, 3, 5>{}, LayoutLeft{});
  both("part_left", left, One{}, make_layout(Ints<20>{}), true);
  both("whole_left", left, One{}, make_layout(Ints<12, 5>{}, LayoutRight{}), false);
  // Extents that only a run knows, equal shapes.
  auto dynamic = make_layout(cute::make_shape(4, cute::Int<3>{}, 5), cute::make_stride(15, 5, 1));
  both("dynamic_whole", dynamic, One{}, make_layout(cute::make_shape(4, 3, 5), cute::make_stride(15, 5, 1)), false);
}
