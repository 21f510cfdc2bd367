/// \file arguments.h
/// Checks of an entry's arguments against its declaration, before anything runs.
///
/// Generated code states the declaration in tables. Every message names entry, parameter, expected and actual.
#pragma once

#include <cstdint>

#include <tvm/ffi/c_api.h>

#include <tilefoundry/runtime/host/failure.h>

namespace tilefoundry {
namespace host {

static_assert(static_cast<int>(TypeCode::bf) == kDLBfloat && static_cast<int>(TypeCode::boolean) == kDLBool &&
                  static_cast<int>(TypeCode::fp8e4m3) == kDLFloat8_e4m3fn &&
                  static_cast<int>(TypeCode::fp8e5m2) == kDLFloat8_e5m2 &&
                  static_cast<int>(TypeCode::f8e8m0) == kDLFloat8_e8m0fnu &&
                  static_cast<int>(TypeCode::f4e2m1) == kDLFloat4_e2m1fn,
              "host::TypeCode: DLPack numbers its element types otherwise than failure.h says");

/// A declared parameter. `dims` points at `rank` codes: a static extent, -1 - v for DimVar v alone, or
/// `computed_extent` for an expression, which generated code checks itself.
struct Param {
  const char* name;
  const char* type;
  std::uint8_t code;
  std::uint8_t bits;
  int rank;
  const std::int64_t* dims;
};

/// An extent that only the call decides, with its half-open range.
struct Variable {
  const char* name;
  std::int64_t low, high;
};

inline constexpr std::int64_t computed_extent = INT64_MIN;

/// What an entry declares. Outputs are the trailing parameters; `inplace` holds (output, input) pairs that a
/// caller may pass as one tensor.
struct Declaration {
  const char* name;
  const Param* params;
  int count;
  int outputs;
  const Variable* variables;
  int variable_count;
  const int (*inplace)[2];
  int inplace_count;
  int device_type;
};

/// The checked arguments: data pointers and the values of the DimVars.
struct Bound {
  void** data;
  DLTensor const** tensors;
  std::int64_t* extents;
};

inline const char* device_text(int type) {
  switch (type) {
    case kDLCPU: return "cpu";
    case kDLCUDA: return "cuda";
    case kDLCUDAHost: return "cuda-pinned host memory";
    case kDLMetal: return "metal";
    case kDLROCM: return "rocm";
    default: return "another device";
  }
}

namespace detail {

inline DLTensor const* tensor_of(Declaration const& entry, TVMFFIAny const& arg, int i) {
  if (arg.type_index == kTVMFFIDLTensorPtr) return static_cast<DLTensor const*>(arg.v_ptr);
  if (arg.type_index == kTVMFFITensor) return TVMFFITensorGetDLTensorPtr(arg.v_obj);
  const char* got = arg.type_index == kTVMFFINone    ? "None"
                    : arg.type_index == kTVMFFIInt   ? "an int"
                    : arg.type_index == kTVMFFIBool  ? "a bool"
                    : arg.type_index == kTVMFFIFloat ? "a float"
                                                     : "something else";
  fail("TypeError", {entry.name, ": ", entry.params[i].name, " must be a tensor ", entry.params[i].type, ", got ", got});
}

inline void check_kind(Declaration const& entry, DLTensor const& t, int i) {
  Param const& p = entry.params[i];
  if (t.dtype.code != p.code || t.dtype.bits != p.bits || t.dtype.lanes != 1)
    fail("ValueError", {entry.name, ": ", p.name, " is ", t.dtype, ", declared ", p.type, "; convert it with .to()"});
  if (t.ndim != p.rank)
    fail("ValueError", {entry.name, ": ", p.name, " has shape ", Piece(t.shape, t.ndim), " of rank ", int{t.ndim},
                        ", declared ", p.type, " of rank ", p.rank});
  const int device = t.device.device_type;
  const bool host_memory = entry.device_type == kDLCPU && (device == kDLCUDAHost || device == kDLROCMHost);
  if (device != entry.device_type && !host_memory)
    fail("ValueError", {entry.name, ": ", p.name, " is on ", device_text(device), ", but ", entry.name,
                        " is compiled for ", device_text(entry.device_type), "; move it with .to()"});
}

[[noreturn, gnu::cold]] inline void wrong_extent(Declaration const& entry, DLTensor const& t, int i, int axis,
                                                 std::int64_t expected) {
  fail("ValueError", {entry.name, ": ", entry.params[i].name, " has shape ", Piece(t.shape, t.ndim), ", declared ",
                      entry.params[i].type, ": axis ", axis, " is ", t.shape[axis], ", expected ", expected});
}

inline void bind_extent(Declaration const& entry, DLTensor const& t, int i, int axis, Bound const& bound,
                        int* bound_by) {
  const std::int64_t code = entry.params[i].dims[axis], extent = t.shape[axis];
  if (code == computed_extent) return;
  if (code >= 0) {
    if (extent != code) wrong_extent(entry, t, i, axis, code);
    return;
  }
  const int v = static_cast<int>(-1 - code);
  Variable const& var = entry.variables[v];
  if (bound_by[v] < 0) {
    if (extent < var.low || extent >= var.high)
      fail("ValueError", {entry.name, ": ", entry.params[i].name, " gives ", var.name, " = ", extent,
                          ", outside its range [", var.low, ", ", var.high, ")"});
    bound_by[v] = i;
    bound.extents[v] = extent;
  } else if (bound.extents[v] != extent) {
    fail("ValueError", {entry.name, ": ", entry.params[i].name, " gives ", var.name, " = ", extent, ", but ",
                        entry.params[bound_by[v]].name, " gave ", bound.extents[v]});
  }
}

inline bool is_empty(DLTensor const& t) {
  for (int d = 0; d < t.ndim; ++d)
    if (t.shape[d] == 0) return true;
  return false;
}

inline void check_contiguous(Declaration const& entry, DLTensor const& t, int i) {
  if (t.strides == nullptr || is_empty(t)) return;
  std::int64_t step = 1;
  for (int d = t.ndim - 1; d >= 0; --d) {
    if (t.shape[d] != 1 && t.strides[d] != step) {
      const bool output = i >= entry.count - entry.outputs;
      const char* name = entry.params[i].name;
      fail("ValueError", {entry.name, ": ", name, " has strides ", Piece(t.strides, t.ndim), " for shape ",
                          Piece(t.shape, t.ndim), "; a contiguous tensor is needed", output ? " as output" : ": pass ",
                          output ? "" : name, output ? "" : ".contiguous()"});
    }
    step *= t.shape[d];
  }
}

inline std::int64_t byte_size(DLTensor const& t) {
  std::int64_t n = (t.dtype.bits * t.dtype.lanes + 7) / 8;
  for (int d = 0; d < t.ndim; ++d) n *= t.shape[d];
  return n;
}

inline bool may_share(Declaration const& entry, int output, int input) {
  for (int k = 0; k < entry.inplace_count; ++k)
    if (entry.inplace[k][0] == output && entry.inplace[k][1] == input) return true;
  return false;
}

inline void check_overlap(Declaration const& entry, Bound const& bound) {
  const int first = entry.count - entry.outputs;
  for (int o = first; o < entry.count; ++o) {
    char const* begin = static_cast<char const*>(bound.data[o]);
    char const* end = begin + byte_size(*bound.tensors[o]);
    for (int i = 0; i < o; ++i) {
      char const* other = static_cast<char const*>(bound.data[i]);
      char const* other_end = other + byte_size(*bound.tensors[i]);
      if (begin >= other_end || other >= end || begin == end || other == other_end) continue;
      if (begin == other && end == other_end && i < first && may_share(entry, o - first, i)) continue;
      fail("ValueError", {entry.name, ": ", entry.params[o].name, " overlaps the memory of ", entry.params[i].name,
                          "; pass an output of its own"});
    }
  }
}

}  // namespace detail

/// Check all arguments and fill `bound`. Extents that are expressions are left to the caller.
/// \param bound_by scratch, one per DimVar.
inline void bind_arguments(Declaration const& entry, TVMFFIAny const* args, int count, Bound const& bound,
                           int* bound_by) {
  if (count != entry.count)
    fail("TypeError", {entry.name, " takes ", entry.count, " tensors, ", entry.params[0].name, " to ",
                       entry.params[entry.count - 1].name, ", got ", count});
  for (int v = 0; v < entry.variable_count; ++v) bound_by[v] = -1;
  for (int i = 0; i < entry.count; ++i) {
    DLTensor const* t = detail::tensor_of(entry, args[i], i);
    detail::check_kind(entry, *t, i);
    for (int axis = 0; axis < t->ndim; ++axis) detail::bind_extent(entry, *t, i, axis, bound, bound_by);
    detail::check_contiguous(entry, *t, i);
    bound.tensors[i] = t;
    bound.data[i] = static_cast<char*>(t->data) + t->byte_offset;
  }
  detail::check_overlap(entry, bound);
}

/// The value of DimVar `v` where an extent is `factor * value + rest`; it must be whole and in range.
inline std::int64_t solve_extent(Declaration const& entry, Bound const& bound, int v, int param, int axis,
                                 std::int64_t factor, std::int64_t rest) {
  DLTensor const& t = *bound.tensors[param];
  Variable const& var = entry.variables[v];
  const std::int64_t left = t.shape[axis] - rest, value = left / factor;
  if (value * factor != left || value < var.low || value >= var.high)
    fail("ValueError",
         {entry.name, ": ", entry.params[param].name, " has shape ", Piece(t.shape, t.ndim), ", declared ",
          entry.params[param].type, ": axis ", axis, " is ", t.shape[axis], ", expected ", factor, " * ", var.name,
          " + ", rest, " with ", var.name, " in [", var.low, ", ", var.high, ")"});
  return value;
}

/// An extent that is an expression of the DimVars, against its value.
inline void check_extent(Declaration const& entry, Bound const& bound, int param, int axis, std::int64_t expected) {
  DLTensor const& t = *bound.tensors[param];
  if (t.shape[axis] != expected) detail::wrong_extent(entry, t, param, axis, expected);
}

/// Whether every output is empty, so that there is nothing to do.
inline bool nothing_to_write(Declaration const& entry, Bound const& bound) {
  for (int i = entry.count - entry.outputs; i < entry.count; ++i)
    if (!detail::is_empty(*bound.tensors[i])) return false;
  return true;
}

}  // namespace host
}  // namespace tilefoundry
