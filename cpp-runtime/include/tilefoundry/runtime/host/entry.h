/// \file entry.h
/// The boundary to TVM FFI: exported symbols, and exceptions turned into FFI errors.
///
/// Only the C interface of TVM FFI is included: its C++ headers take seconds to compile, and an entry needs
/// nothing of them.
#pragma once

#include <cstring>
#include <exception>

#include <tvm/ffi/c_api.h>

#include <tilefoundry/runtime/host/arguments.h>
#include <tilefoundry/runtime/host/slab.h>

namespace tilefoundry {
namespace host {

/// The flattened arguments of a call.
struct Arguments {
  TVMFFIAny const* values;
  int count;
};

/// Raise without a backtrace: symbols of every loaded library would be read for it, over a second the first time.
inline void raise(char const* kind, char const* message) {
  TVMFFIByteArray const empty{"", 0};
  TVMFFIByteArray const kind_bytes{kind, std::strlen(kind)};
  TVMFFIByteArray const message_bytes{message, std::strlen(message)};
  TVMFFIObjectHandle error = nullptr;
  if (TVMFFIErrorCreate(&kind_bytes, &message_bytes, &empty, &error) != 0) {
    TVMFFIErrorSetRaisedFromCStr(kind, message);
    return;
  }
  TVMFFIErrorSetRaised(error);
  TVMFFIObjectDecRef(error);
}

/// Run `function` and report what it throws as the FFI's raised error.
inline int guarded(void (*function)(Arguments const&), TVMFFIAny const* args, int count, TVMFFIAny* result) {
  try {
    function(Arguments{args, count});
    result->type_index = kTVMFFINone;
    result->zero_padding = 0;
    result->v_int64 = 0;
    return 0;
  } catch (Failure const& failure) {
    raise(failure.kind, failure.message);
  } catch (std::bad_alloc const&) {
    raise("MemoryError", "the call ran out of memory");
  } catch (std::exception const& error) {
    raise("RuntimeError", error.what());
  }
  return -1;
}

}  // namespace host
}  // namespace tilefoundry

#ifndef TVM_FFI_DLL_EXPORT_TYPED_FUNC
/// Export `Function`, a `void(tilefoundry::host::Arguments const&)`, under the symbol that TVM FFI looks for.
/// Same name and effect as the macro of tvm/ffi/function.h, which is not included.
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(ExportName, Function)                                               \
  extern "C" __attribute__((visibility("default"))) int __tvm_ffi_##ExportName(                           \
      void*, TVMFFIAny const* args, int32_t num_args, TVMFFIAny* result) {                                \
    return ::tilefoundry::host::guarded(Function, args, num_args, result);                                \
  }
#endif
