/// \file cuda_driver.h
/// The CUDA driver by name: a library names neither libcuda nor cudart as needed, so that it opens on a machine
/// without a GPU and serves every CUDA release. Declared here is the little that an entry calls; no CUDA header.
#pragma once

#include <dlfcn.h>

#include <cstddef>

#include <tilefoundry/runtime/host/failure.h>

namespace tilefoundry {
namespace host {

using CuContext = struct CuContextRecord*;
using CuModule = struct CuModuleRecord*;
using CuFunction = struct CuFunctionRecord*;
using CuStream = void*;
using CuAddress = unsigned long long;

/// One launch attribute, 8 bytes of header and 64 of value, as the driver lays it out.
struct CuLaunchAttribute {
  int id;
  char padding[4];
  union {
    char bytes[64];
    int cooperative;
    int programmatic;
    unsigned cluster[3];
  } value;
};

struct CuLaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  CuStream stream;
  CuLaunchAttribute* attributes;
  unsigned attribute_count;
};

/// Functions of libcuda, looked up once.
struct Driver {
  int (*get_error_name)(int, const char**);
  int (*get_error_string)(int, const char**);
  int (*init)(unsigned);
  int (*driver_version)(int*);
  int (*primary_context)(CuContext*, int);
  int (*current_context)(CuContext*);
  int (*push_context)(CuContext);
  int (*pop_context)(CuContext*);
  int (*device_attribute)(int*, int, int);
  int (*load_module)(CuModule*, const void*);
  int (*get_function)(CuFunction*, CuModule, const char*);
  int (*get_global)(CuAddress*, std::size_t*, CuModule, const char*);
  int (*set_attribute)(CuFunction, int, int);
  int (*occupancy)(int*, CuFunction, int, std::size_t);
  int (*launch)(CuLaunchConfig const*, CuFunction, void**, void**);
  int (*set_words)(CuAddress, unsigned, std::size_t, CuStream);
  int (*allocate)(CuAddress*, std::size_t);
  int (*is_capturing)(CuStream, int*);
  int (*exchange_capture_mode)(int*);

  /// The driver of this process.
  /// Throws when there is none.
  static Driver const& get() {
    static const Driver driver = open();
    return driver;
  }

  void check(int code, const char* what) const {
    if (code == 0) return;
    const char* name = "an unknown error";
    const char* text = "";
    get_error_name(code, &name);
    get_error_string(code, &text);
    fail("RuntimeError", {what, " failed: ", name, ", ", text});
  }

 private:
  static Driver open() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      fail("RuntimeError", "this library runs on an NVIDIA GPU, and libcuda.so.1 is not here: install the NVIDIA driver");
    Driver d{};
    find(library, "cuGetErrorName", d.get_error_name);
    find(library, "cuGetErrorString", d.get_error_string);
    find(library, "cuInit", d.init);
    find(library, "cuDriverGetVersion", d.driver_version);
    find(library, "cuDevicePrimaryCtxRetain", d.primary_context);
    find(library, "cuCtxGetCurrent", d.current_context);
    find(library, "cuCtxPushCurrent_v2", d.push_context);
    find(library, "cuCtxPopCurrent_v2", d.pop_context);
    find(library, "cuDeviceGetAttribute", d.device_attribute);
    find(library, "cuModuleLoadData", d.load_module);
    find(library, "cuModuleGetFunction", d.get_function);
    find(library, "cuModuleGetGlobal_v2", d.get_global);
    find(library, "cuFuncSetAttribute", d.set_attribute);
    find(library, "cuOccupancyMaxActiveBlocksPerMultiprocessor", d.occupancy);
    find(library, "cuLaunchKernelEx", d.launch);
    find(library, "cuMemsetD32Async", d.set_words);
    find(library, "cuMemAlloc_v2", d.allocate);
    find(library, "cuStreamIsCapturing", d.is_capturing);
    find(library, "cuThreadExchangeStreamCaptureMode", d.exchange_capture_mode);
    d.check(d.init(0), "cuInit");
    return d;
  }

  template <class F>
  static void find(void* library, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (function == nullptr)
      fail("RuntimeError", {"the NVIDIA driver has no ", name, "; driver 525 (CUDA 12) or later is needed"});
  }
};

}  // namespace host
}  // namespace tilefoundry
