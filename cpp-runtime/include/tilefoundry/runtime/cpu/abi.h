/// \file abi.h
/// What a loader sets in a CPU library after opening it: the BLAS table and the thread count.
///
/// The library itself names no BLAS and no thread runtime policy. Three C symbols are exported by every
/// library that includes the CPU surface:
///   void tilefoundry_set_blas(const tilefoundry_blas_table* table);   // null removes it
///   void tilefoundry_set_num_threads(int threads);                    // <= 0: the OpenMP default
///   void tilefoundry_set_thread_source(int (*source)());              // asked by each parallel region instead;
///                                                                     // null goes back to the number set
/// All may be called at any time from any thread; a call in flight keeps what it has read.
#pragma once

#include <atomic>

extern "C" {

/// CBLAS `gemm` with 32-bit integers. Order: 101 row-major. Transposes: 111 none, 112 transposed.
typedef void (*tilefoundry_sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                                     const float* a, int lda, const float* b, int ldb, float beta, float* c,
                                     int ldc);
typedef void (*tilefoundry_dgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha,
                                     const double* a, int lda, const double* b, int ldb, double beta, double* c,
                                     int ldc);

/// Function table of a BLAS. `size` is `sizeof(tilefoundry_blas_table)` as the loader knows it, so that
/// fields may be added behind the present ones; a missing function is null and the library's own loops serve.
typedef struct tilefoundry_blas_table {
  unsigned long size;
  tilefoundry_sgemm_fn sgemm;
  tilefoundry_dgemm_fn dgemm;
} tilefoundry_blas_table;
}

namespace tilefoundry {
namespace detail {

// Hidden, so that two libraries in one process never share a table or a thread count.
__attribute__((visibility("hidden"))) inline std::atomic<tilefoundry_sgemm_fn> blas_sgemm{nullptr};
__attribute__((visibility("hidden"))) inline std::atomic<tilefoundry_dgemm_fn> blas_dgemm{nullptr};
__attribute__((visibility("hidden"))) inline std::atomic<int> thread_limit{0};
__attribute__((visibility("hidden"))) inline std::atomic<int (*)()> thread_source{nullptr};

}  // namespace detail
}  // namespace tilefoundry

extern "C" {

__attribute__((weak, used, visibility("default"))) void tilefoundry_set_blas(const tilefoundry_blas_table* table) {
  const bool usable = table != nullptr && table->size >= sizeof(tilefoundry_blas_table);
  tilefoundry::detail::blas_sgemm.store(usable ? table->sgemm : nullptr);
  tilefoundry::detail::blas_dgemm.store(usable ? table->dgemm : nullptr);
}

__attribute__((weak, used, visibility("default"))) void tilefoundry_set_num_threads(int threads) {
  tilefoundry::detail::thread_limit.store(threads > 0 ? threads : 0);
}

__attribute__((weak, used, visibility("default"))) void tilefoundry_set_thread_source(int (*source)()) {
  tilefoundry::detail::thread_source.store(source);
}
}
