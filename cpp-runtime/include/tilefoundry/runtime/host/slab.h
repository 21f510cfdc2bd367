/// \file slab.h
/// The one workspace of a call, from the framework's allocator.
#pragma once

#include <cstdlib>

#include <tvm/ffi/extra/c_env_api.h>

#include <tilefoundry/runtime/host/failure.h>

namespace tilefoundry {
namespace host {

/// Offset of the next slot: `bytes` rounded up to a cache line.
inline std::int64_t padded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// The larger of two sizes.
inline std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

/// `bytes` bytes of scratch memory on `device` for as long as it lives. Where the caller's framework brings no
/// allocator, host memory comes from the C library.
class Slab {
 public:
  Slab(std::int64_t bytes, DLDevice device) {
    if (TVMFFIEnvGetDLPackManagedTensorAllocator() == nullptr && device.device_type == kDLCPU) {
      plain_ = std::aligned_alloc(64, static_cast<std::size_t>(padded(bytes)));
      if (plain_ == nullptr) fail("MemoryError", {"no memory for a workspace of ", bytes, " bytes"});
      data_ = static_cast<char*>(plain_);
      return;
    }
    std::int64_t shape[1] = {bytes};
    DLTensor prototype{nullptr, device, 1, {kDLUInt, 8, 1}, shape, nullptr, 0};
    if (TVMFFIEnvTensorAlloc(&prototype, &tensor_) != 0)
      fail("MemoryError", {"the framework gave no workspace of ", bytes, " bytes"});
    DLTensor const* t = TVMFFITensorGetDLTensorPtr(tensor_);
    data_ = static_cast<char*>(t->data) + t->byte_offset;
  }
  ~Slab() {
    if (tensor_ != nullptr) TVMFFIObjectDecRef(tensor_);
    std::free(plain_);
  }
  Slab(Slab const&) = delete;
  Slab& operator=(Slab const&) = delete;

  template <class T>
  T* at(std::int64_t offset) const {
    return reinterpret_cast<T*>(data_ + offset);
  }

 private:
  TVMFFIObjectHandle tensor_ = nullptr;
  void* plain_ = nullptr;
  char* data_ = nullptr;
};

}  // namespace host
}  // namespace tilefoundry
