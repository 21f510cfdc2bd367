// Binary family, elementwise and broadcast over rows, against float64 host formulas.
#include <tilefoundry/runtime.h>

#include "harness.h"

using namespace tilefoundry;
using harness::Buffer;
namespace ct = cute;

template <class Op, class A, class B, class D>
__global__ void binary_kernel(A const* a, B const* b, B const* row, D* d, D* by_row, int rows) {
  // Rows of 16: elementwise, and against one row that repeats with stride 0.
  using Tile = ct::Layout<ct::Shape<ct::Int<2>, ct::Int<16>>, ct::Stride<ct::Int<16>, ct::Int<1>>>;
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * 2;
  if (at + 2 > rows) return;
  auto d0 = as_gmem(d + at * 16, Tile{}), d1 = as_gmem(by_row + at * 16, Tile{});
  ops::binary(Op{}, as_gmem(a + at * 16, Tile{}), as_gmem(b + at * 16, Tile{}), d0);
  ops::binary(Op{}, as_gmem(a + at * 16, Tile{}),
              as_gmem(row, ct::Layout<ct::Shape<ct::Int<1>, ct::Int<16>>, ct::Stride<ct::Int<0>, ct::Int<1>>>{}), d1);
}

template <class Op, class T, class D, class Oracle>
void check_binary(char const* name, double low, double high, double relative, Oracle oracle) {
  for (size_t shift : {0, 3}) {
    const int rows = harness::quick() ? 66 : 1002, n = rows * 16;
    auto a = harness::Random(7).values<T>(n, low, high), b = harness::Random(8).values<T>(n, low, high);
    for (int i = 0; i < n; i += 5) b[i] = a[i];
    Buffer<T> da(a, shift), db(b, shift), dr(std::vector<T>(b.begin(), b.begin() + 16), shift);
    Buffer<D> out(n, shift), by_row(n, shift);
    binary_kernel<Op><<<(rows / 2 + 63) / 64, 64>>>(da.data(), db.data(), dr.data(), out.data(), by_row.data(), rows);
    auto got = out.host(), rowed = by_row.host();
    for (int i = 0; i < n; ++i) {
      const double x = harness::value_of(a[i]), y = harness::value_of(b[i]), r = harness::value_of(b[i % 16]);
      harness::expect(harness::near(harness::value_of(got[i]), oracle(x, y), 1e-30, relative),
                      harness::describe(name, harness::value_of(got[i]), oracle(x, y)));
      harness::expect(harness::near(harness::value_of(rowed[i]), oracle(x, r), 1e-30, relative),
                      harness::describe(std::string(name) + " by row", harness::value_of(rowed[i]), oracle(x, r)));
    }
    harness::expect(out.guards_intact() && by_row.guards_intact(), std::string(name) + ": guard bytes changed");
  }
}

double floor_mod(double x, double y) {
  const double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

#define BINARY(tag, formula)                                                                              \
  check_binary<ops::tag##_op, float, float>(#tag " f32", -9, 9, 1.3e-7, [](double x, double y) -> double { return formula; }); \
  check_binary<ops::tag##_op, bf16, float>(#tag " bf16", -9, 9, 1.3e-7, [](double x, double y) -> double { return formula; });
#define COMPARE(tag, formula)                                                                             \
  check_binary<ops::tag##_op, float, bool>(#tag " f32", -3, 3, 0, [](double x, double y) { return double(formula); }); \
  check_binary<ops::tag##_op, int32_t, bool>(#tag " i32", -3, 3, 0, [](double x, double y) { return double(formula); });

void binary_cases() {
  BINARY(add, double(float(x + y)))
  BINARY(sub, double(float(x - y)))
  BINARY(mul, x* y)
  BINARY(div, x / y)
  BINARY(minimum, std::fmin(x, y))
  BINARY(maximum, std::fmax(x, y))
  check_binary<ops::mod_op, float, float>("mod f32", -9, 9, 1e-6, floor_mod);
  check_binary<ops::floor_div_op, float, float>("floor_div f32", -9, 9, 0, [](double x, double y) { return std::floor(x / y); });
  check_binary<ops::mod_op, int32_t, int32_t>("mod i32", -99, 99, 0, [](double x, double y) { return y == 0 ? 0 : floor_mod(x, y); });
  check_binary<ops::floor_div_op, int32_t, int32_t>("floor_div i32", -99, 99, 0, [](double x, double y) { return y == 0 ? 0 : std::floor(x / y); });
  check_binary<ops::div_op, int32_t, int32_t>("div i32", -99, 99, 0, [](double x, double y) { return y == 0 ? 0 : std::trunc(x / y); });
  check_binary<ops::mul_op, int32_t, int32_t>("mul i32 wraps", -2e9, 2e9, 0, [](double x, double y) { return double(int32_t(uint32_t(int64_t(x)) * uint32_t(int64_t(y)))); });
  COMPARE(cmp_eq, x == y)
  COMPARE(cmp_ne, x != y)
  COMPARE(cmp_lt, x < y)
  COMPARE(cmp_le, x <= y)
  COMPARE(cmp_gt, x > y)
  COMPARE(cmp_ge, x >= y)
  COMPARE(logical_and, x != 0 && y != 0)
  COMPARE(logical_or, x != 0 || y != 0)
}

int main() {
  binary_cases();
  return harness::finish("binary");
}
