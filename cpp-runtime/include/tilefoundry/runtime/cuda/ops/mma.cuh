/// \file mma.cuh
/// `ops::mma`: one matrix instruction on fragments that the caller holds.
#pragma once

#include <cute/tensor_impl.hpp>

#include <tilefoundry/runtime/cuda/ops/mma_atoms.cuh>
#include <tilefoundry/runtime/cuda/ops/wgmma.cuh>

namespace tilefoundry {
namespace ops {
namespace mma_impl {

/// The registers of a fragment tensor as words of W.
template <class W, int Words, class Fragment>
__device__ auto& words(Fragment& fragment) {
  using Bare = stdx::remove_cv_t<Fragment>;
  static_assert(cute::is_rmem<Bare>::value, "ops::mma: fragments live in registers; load them first");
  static_assert(cute::cosize_v<typename Bare::layout_type> * sizeof(typename Bare::value_type) == Words * sizeof(W),
                "ops::mma: the fragment does not have the atom's size per thread");
  using Array = stdx::conditional_t<stdx::is_const_v<Fragment>, W const, W>[Words];
  return reinterpret_cast<Array&>(*cute::raw_pointer_cast(fragment.data()));
}

}  // namespace mma_impl

/// acc += a b by the warp-level `atom`; all lanes of the warp call, each with its fragments in the atom's layout.
/// No workspace; the sums are valid in the lane that holds them.
template <class Atom, class Acc, class A, class B>
__device__ void mma(Atom, Acc& acc, A const& a, B const& b) {
  using Word = stdx::conditional_t<stdx::is_same_v<typename Atom::input_type, double>, double, uint32_t>;
  Atom::fma(mma_impl::words<typename Atom::sum_type, Atom::sums>(acc), mma_impl::words<Word, Atom::a_words>(a),
            mma_impl::words<Word, Atom::b_words>(b));
}

/// acc += a b by a warpgroup-level `atom` on two shared-memory descriptors; all 128 threads call. Asynchronous:
/// `wgmma_fence` before the first, `wgmma_commit` and `wgmma_wait` after the last, the sums untouched in between and valid
/// after it in the thread that holds them. The tiles behind the descriptors are all the workspace there is.
template <class Atom, class Acc>
__device__ void mma(Atom, Acc& acc, uint64_t a, uint64_t b) {
  Atom::fma(mma_impl::words<typename Atom::sum_type, Atom::sums>(acc), a, b);
}

}  // namespace ops
}  // namespace tilefoundry
