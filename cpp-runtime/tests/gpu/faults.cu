// Values that break a program's contract: the kernel says what is wrong and the device's work stops. Each case runs in
// a process of its own, which its device error ends; the parent reads what it printed.
#include <sys/wait.h>
#include <unistd.h>

#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<64>>{};
}
}  // namespace tilefoundry

#include "views.h"

using namespace tilefoundry;
using namespace views;
using harness::Buffer;

template <bool Add>
__global__ void update(View<float const, 2> dst, View<i64 const, 1> index, View<float const, 2> src, View<float, 2> out) {
  if constexpr (Add) {
    ops::index_add(dst, index, src, out);
  } else {
    ops::index_copy(dst, index, src, out);
  }
}
__global__ void rotate(View<float const, 4> x, View<float const, 2> table, View<i64 const, 2> at, View<float, 4> out) {
  ops::rope(x, table, table, at, out);
}
__global__ void grouped(View<float const, 2> x, View<float const, 3> w, View<i64 const, 1> offsets, View<float, 2> out) {
  __shared__ alignas(1024) char workspace[ops::matmul_bytes<float, float, 64>()];
  ops::grouped_matmul(x, w, offsets, out, workspace);
}

template <bool Add>
void update_with(i64 index) {
  auto whole = dense<2>({4, 3}), part = dense<2>({1, 3});
  Buffer<float> dst(std::vector<float>(12, 1)), src(std::vector<float>(3, 1)), out(12);
  Buffer<i64> numbers(std::vector<i64>{index});
  update<Add><<<2, 64>>>(whole.on<float const>(dst.data()), dense<1>({1}).on<i64 const>(numbers.data()),
                         part.on<float const>(src.data()), whole.on(out.data()));
  CHECK_CUDA(cudaDeviceSynchronize());
}
void rotate_with(i64 position) {
  auto tensor = dense<4>({1, 1, 1, 4});
  Buffer<float> x(std::vector<float>(4, 1)), table(std::vector<float>(20, 1)), out(4);
  Buffer<i64> at(std::vector<i64>{position});
  rotate<<<1, 64>>>(tensor.on<float const>(x.data()), dense<2>({5, 4}).on<float const>(table.data()),
                    dense<2>({1, 1}).on<i64 const>(at.data()), tensor.on(out.data()));
  CHECK_CUDA(cudaDeviceSynchronize());
}
void group_with(std::vector<i64> offsets) {
  auto rows = dense<2>({6, 2});
  Buffer<float> x(std::vector<float>(12, 1)), w(std::vector<float>(8, 1)), out(12);
  Buffer<i64> numbers(offsets);
  grouped<<<2, 64>>>(rows.on<float const>(x.data()), dense<3>({2, 2, 2}).on<float const>(w.data()),
                     dense<1>({3}).on<i64 const>(numbers.data()), rows.on(out.data()));
  CHECK_CUDA(cudaDeviceSynchronize());
}

/// Whether `body`, in a process of its own, fails with `sentence`; with none it must succeed in silence.
template <class Body>
void child(char const* sentence, Body body) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(2);
  const pid_t process = fork();
  if (process == 0) {
    dup2(ends[1], 1);
    close(ends[0]), close(ends[1]);
    body();
    cudaDeviceReset();
    std::fflush(stdout);
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char text[512];
  for (ssize_t n; (n = read(ends[0], text, sizeof(text))) > 0;) said.append(text, size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(process, &status, 0);
  const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (sentence == nullptr) {
    harness::expect(well && said.empty(), "values that keep the contract: " + said);
  } else {
    harness::expect(!well && said.find(sentence) != std::string::npos, std::string(sentence) + ", but got: " + said);
  }
}

int main() {
  for (i64 fine : {0, 3}) child(nullptr, [&] { update_with<true>(fine), update_with<false>(fine), rotate_with(fine); });
  child(nullptr, [] { group_with({0, 2, 6}), group_with({0, 0, 0}); });
  child("tf.index_add: the index 4 is outside the extent 4", [] { update_with<true>(4); });
  child("tf.index_add: the index -1 is outside the extent 4", [] { update_with<true>(-1); });
  child("tf.index_copy: the index 9000000000 is outside the extent 4", [] { update_with<false>(9000000000); });
  child("tf.rope: the index 5 is outside the extent 5", [] { rotate_with(5); });
  for (auto offsets : {std::vector<i64>{1, 2, 6}, std::vector<i64>{0, 4, 3}, std::vector<i64>{0, 2, 7}, std::vector<i64>{0, -1, 6}})
    child("tf.grouped_matmul: offsets must start at 0", [&] { group_with(offsets); });
  std::printf("faults: %ld checks, %ld failures\n", harness::checks, harness::failures);
  return harness::failures == 0 ? 0 : 1;
}
