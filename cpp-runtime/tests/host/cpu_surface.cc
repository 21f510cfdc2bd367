// The CPU surface behind a C interface, for tests that compare it with numpy.
#include <tilefoundry/runtime.h>

using namespace tilefoundry;

#define CONVERSIONS(name, bits_type)                                                                \
  extern "C" void to_##name(const float* in, bits_type* out, index_t n) {                           \
    for (index_t i = 0; i < n; ++i) out[i] = name(in[i]).bits;                                      \
  }                                                                                                 \
  extern "C" void from_##name(const bits_type* in, float* out, index_t n) {                         \
    for (index_t i = 0; i < n; ++i) {                                                               \
      name x;                                                                                       \
      x.bits = in[i];                                                                               \
      out[i] = float(x);                                                                            \
    }                                                                                               \
  }
CONVERSIONS(f16, std::uint16_t)
CONVERSIONS(bf16, std::uint16_t)
CONVERSIONS(fp8e4m3, std::uint8_t)
CONVERSIONS(fp8e5m2, std::uint8_t)
CONVERSIONS(f8e8m0, std::uint8_t)
CONVERSIONS(f4e2m1, std::uint8_t)

extern "C" void convert_f32_i32(const float* in, i32* out, index_t n) {
  ops::cast(make_view<1>(in, {n}), make_view<1>(out, {n}));
}
extern "C" void convert_f64_i64(const double* in, i64* out, index_t n) {
  ops::cast(make_view<1>(in, {n}), make_view<1>(out, {n}));
}

#define UNARY(name, S, D)                                                                          \
  extern "C" void unary_##name##_##S##_##D(const S* in, D* out, index_t n, index_t in_step) {      \
    ops::unary(ops::name##_op{}, make_view<1>(in, {n}, {in_step}), make_view<1>(out, {n}));        \
  }
#define REAL_UNARY(name) UNARY(name, f32, f32) UNARY(name, f64, f64) UNARY(name, bf16, bf16)
REAL_UNARY(neg)
REAL_UNARY(abs)
REAL_UNARY(square)
REAL_UNARY(sqrt)
REAL_UNARY(rsqrt)
REAL_UNARY(exp)
REAL_UNARY(exp2)
REAL_UNARY(log)
REAL_UNARY(log2)
REAL_UNARY(ceil)
REAL_UNARY(floor)
REAL_UNARY(round)
REAL_UNARY(sin)
REAL_UNARY(cos)
REAL_UNARY(erf)
REAL_UNARY(relu)
REAL_UNARY(sigmoid)
REAL_UNARY(silu)
REAL_UNARY(tanh)
REAL_UNARY(gelu)
REAL_UNARY(gelu_tanh)
REAL_UNARY(softplus)
REAL_UNARY(identity)
UNARY(neg, i32, i32)
UNARY(abs, i32, i32)
UNARY(square, i32, i32)
UNARY(logical_not, f32, bool)

// rows x columns against a row, a column and a scalar by broadcasting.
#define BINARY(name, T, D)                                                                                \
  extern "C" void binary_##name##_##T(const T* a, const T* b, D* out, index_t rows, index_t columns) {    \
    ops::binary(ops::name##_op{}, make_view<2>(a, {rows, columns}), make_view<2>(b, {rows, columns}),     \
                make_view<2>(out, {rows, columns}));                                                      \
  }                                                                                                       \
  extern "C" void broadcast_##name##_##T(const T* row, const T* column, D* out, index_t rows, index_t columns) { \
    auto dst = make_view<2>(out, {rows, columns});                                                        \
    ops::binary(ops::name##_op{}, broadcast_to<2>(make_view<1>(row, {columns}), dst.shape),               \
                broadcast_to<2>(make_view<2>(column, {rows, 1}), dst.shape), dst);                        \
  }
#define ARITHMETIC(name) BINARY(name, f32, f32) BINARY(name, i32, i32)
#define PREDICATE(name) BINARY(name, f32, bool) BINARY(name, i32, bool)
ARITHMETIC(add)
ARITHMETIC(sub)
ARITHMETIC(mul)
ARITHMETIC(div)
ARITHMETIC(floor_div)
ARITHMETIC(mod)
ARITHMETIC(minimum)
ARITHMETIC(maximum)
PREDICATE(cmp_eq)
PREDICATE(cmp_ne)
PREDICATE(cmp_lt)
PREDICATE(cmp_le)
PREDICATE(cmp_gt)
PREDICATE(cmp_ge)
PREDICATE(logical_and)
PREDICATE(logical_or)

// outer x middle x inner, reduced over the last mode or, by strides, over the middle one.
#define REDUCE(op, S, D)                                                                                    \
  extern "C" void reduce_##op##_##S##_##D(const S* in, D* out, index_t outer, index_t middle, index_t inner, \
                                          int axis) {                                                       \
    auto src = axis_last(make_view<3>(in, {outer, middle, inner}), axis);                                   \
    ops::reduce<ops::op##_op>(src, make_view<2>(out, {src.shape[0], src.shape[1]}));                        \
  }
#define ALL_REDUCE(S, D) REDUCE(sum, S, D) REDUCE(max, S, D) REDUCE(min, S, D) REDUCE(absmax, S, D)
ALL_REDUCE(f32, f32)
ALL_REDUCE(bf16, bf16)
ALL_REDUCE(f64, f64)
ALL_REDUCE(i32, i32)
ALL_REDUCE(i8, i64)
REDUCE(mean, f32, f32)
REDUCE(mean, bf16, bf16)
REDUCE(mean, i32, f32)

extern "C" void reduce_all(const f32* in, f32* out, index_t a, index_t b) {
  ops::reduce<ops::sum_op>(make_view<2>(in, {a, b}), make_view(out));
}

#define ROWS(T)                                                                                              \
  extern "C" void softmax_##T(const T* in, T* out, index_t rows, index_t columns, int axis) {                \
    ops::softmax(axis_last(make_view<2>(in, {rows, columns}), axis), axis_last(make_view<2>(out, {rows, columns}), axis)); \
  }                                                                                                          \
  extern "C" void rms_norm_##T(const T* in, const T* w, T* out, index_t rows, index_t columns, double eps) { \
    ops::rms_norm(make_view<2>(in, {rows, columns}), w, make_view<2>(out, {rows, columns}), eps);            \
  }                                                                                                          \
  extern "C" void layer_norm_##T(const T* in, const T* w, const T* b, T* out, index_t rows, index_t columns, \
                                 double eps) {                                                               \
    ops::layer_norm(make_view<2>(in, {rows, columns}), w, b, make_view<2>(out, {rows, columns}), eps);       \
  }
ROWS(f32)
ROWS(f64)
ROWS(bf16)

// batch x m x k by batch x k x n (or one matrix for all), each side as it lies or transposed.
#define MATMUL(S, D)                                                                                            \
  extern "C" void matmul_##S##_##D(const S* a, const S* b, D* c, index_t batch, index_t m, index_t n, index_t k, \
                                   int a_transposed, int b_transposed, int b_shared) {                          \
    View<const S, 3> va = a_transposed ? make_view<3>(a, {batch, m, k}, {m * k, 1, m}) : make_view<3>(a, {batch, m, k}); \
    View<const S, 3> vb = b_transposed ? make_view<3>(b, {batch, k, n}, {k * n, 1, k}) : make_view<3>(b, {batch, k, n}); \
    if (b_shared) vb.stride[0] = 0;                                                                             \
    ops::matmul(va, vb, make_view<3>(c, {batch, m, n}));                                                        \
  }
MATMUL(f32, f32)
MATMUL(f64, f64)
MATMUL(bf16, bf16)
MATMUL(f16, f32)
MATMUL(i32, i32)
MATMUL(i8, i32)

extern "C" int threads_used(index_t items, index_t cost) { return threads_for(items, cost); }

/// Each item counted once, whatever the chunks are; the number of chunks comes back.
extern "C" int cover(index_t items, index_t cost, int* hits) {
  std::atomic<int> chunks{0};
  parallel_for(items, cost, [&](index_t begin, index_t end) {
    ++chunks;
    for (index_t i = begin; i < end; ++i) ++hits[i];
  });
  return chunks;
}

extern "C" void fill_strided(f32* out, index_t n, index_t step, double value) {
  fill(make_view<1>(out, {n}, {step}), value);
}
extern "C" void transpose(const f32* in, f32* out, index_t rows, index_t columns) {
  copy(make_view<2>(in, {columns, rows}, {1, columns}), make_view<2>(out, {columns, rows}));
}
extern "C" void clamp_f32(const f32* in, f32* out, index_t n, double low, double high) {
  ops::clamp(make_view<1>(in, {n}), make_view<1>(out, {n}), low, high);
}
