/// \file cuda_program.h
/// Kernels of a library on the devices that it is called for, and the device and stream of one call.
#pragma once

#include <string>
#include <atomic>
#include <memory>
#include <mutex>

#include <tvm/ffi/extra/c_env_api.h>

#include <tilefoundry/runtime/host/arguments.h>
#include <tilefoundry/runtime/host/cuda_driver.h>
#include <tilefoundry/runtime/host/grid_barriers.h>

namespace tilefoundry {
namespace host {

/// A kernel: its symbol, the image that holds it, the threads of a block, and the symbol of an array of as many bytes
/// as a launch takes KiB of dynamic shared memory; null: none. `overlaps`: before it touches memory the kernel waits on
/// the device for the launches before it, so that its blocks may be placed while the last of theirs still run.
struct Kernel {
  const char* symbol;
  const char* label;
  int image;
  int block;
  const char* shared_symbol;
  bool cooperative;
  bool overlaps;
};

/// What one launch asks for beside its geometry.
struct LaunchForm {
  int cluster = 1;           ///< neighbouring blocks that run on one part of the chip; they divide the grid
  bool cooperative = false;  ///< all blocks are resident together
  bool apart = false;        ///< no block is placed before the launches ahead have ended
};

/// What a library holds: images and kernels, and per device the loaded functions.
class Program {
 public:
  static constexpr int most_devices = 64;

  template <int Images, int Kernels>
  constexpr Program(const void* const (&images)[Images], Kernel const (&kernels)[Kernels])
      : images_(images), image_count_(Images), kernels_(kernels), kernel_count_(Kernels) {}

  /// What one device has loaded.
  struct OnDevice {
    CuContext context = nullptr;
    int processors = 0;
    bool overlaps = false;  ///< its blocks can wait on the device for earlier launches
    std::unique_ptr<CuFunction[]> functions;
    std::unique_ptr<int[]> shared;    ///< bytes of dynamic shared memory of each kernel's launch
    std::unique_ptr<int[]> resident;  ///< blocks of each kernel that one multiprocessor holds
    mutable GridBarriers barriers;    ///< of its kernels
  };

  /// The functions on `device`, loaded by the first call; thread-safe.
  OnDevice const& on(int device) {
    if (device < 0 || device >= most_devices)
      fail("ValueError", {"device cuda:", device, " is beyond the ", int{most_devices}, " devices that a library serves"});
    OnDevice* found = loaded_[device].load(std::memory_order_acquire);
    return found != nullptr ? *found : load(device);
  }

  Kernel const& kernel(int i) const { return kernels_[i]; }

 private:
  OnDevice const& load(int device) {
    std::lock_guard<std::mutex> held(lock_);
    if (OnDevice* found = loaded_[device].load()) return *found;
    Driver const& driver = Driver::get();
    auto made = std::make_unique<OnDevice>();
    driver.check(driver.primary_context(&made->context, device), "cuDevicePrimaryCtxRetain");
    driver.check(driver.push_context(made->context), "cuCtxPushCurrent");
    // Loading allocates; under a capture of another kind that alone would be refused.
    int mode = 2;
    driver.exchange_capture_mode(&mode);
    struct Restore {
      Driver const& driver;
      int& mode;
      ~Restore() {
        driver.exchange_capture_mode(&mode);
        CuContext popped;
        driver.pop_context(&popped);
      }
    } restore{driver, mode};
    driver.check(driver.device_attribute(&made->processors, 16, device), "cuDeviceGetAttribute");
    int generation = 0, version = 0;
    driver.check(driver.device_attribute(&generation, 75, device), "cuDeviceGetAttribute");
    driver.check(driver.driver_version(&version), "cuDriverGetVersion");
    made->overlaps = generation >= 9 && version >= 12030;  // from there on captures take such launches too
    auto modules = std::make_unique<CuModule[]>(image_count_);
    for (int i = 0; i < image_count_; ++i) {
      const int code = driver.load_module(&modules[i], images_[i]);
      if (code == 209)
        fail("RuntimeError", {"this library was compiled for another GPU architecture than that of cuda:", device,
                              "; compile it for this one"});
      driver.check(code, "cuModuleLoadData");
    }
    made->functions = std::make_unique<CuFunction[]>(kernel_count_);
    made->resident = std::make_unique<int[]>(kernel_count_);
    made->shared = std::make_unique<int[]>(kernel_count_);
    for (int i = 0; i < kernel_count_; ++i) {
      Kernel const& k = kernels_[i];
      CuFunction& function = made->functions[i];
      driver.check(driver.get_function(&function, modules[k.image], k.symbol), "cuModuleGetFunction");
      const int shared = made->shared[i] = stated_bytes(driver, modules[k.image], k);
      if (shared > 48 * 1024) driver.check(driver.set_attribute(function, 8, shared), "cuFuncSetAttribute");
      driver.check(driver.occupancy(&made->resident[i], function, k.block, shared),
                   "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    }
    loaded_[device].store(made.get(), std::memory_order_release);
    return *made.release();  // lives as long as the process, like the driver's modules
  }

  static int stated_bytes(Driver const& driver, CuModule module, Kernel const& k) {
    if (k.shared_symbol == nullptr) return 0;
    CuAddress address = 0;
    std::size_t kib = 0;
    driver.check(driver.get_global(&address, &kib, module, k.shared_symbol), "cuModuleGetGlobal");
    return static_cast<int>(kib) * 1024;
  }

  const void* const* images_;
  int image_count_;
  Kernel const* kernels_;
  int kernel_count_;
  std::mutex lock_;
  std::atomic<OnDevice*> loaded_[most_devices] = {};
};

/// The one device of a call's tensors.
inline int device_of(Declaration const& entry, Bound const& bound) {
  const int device = bound.tensors[0]->device.device_id;
  for (int i = 1; i < entry.count; ++i)
    if (bound.tensors[i]->device.device_id != device)
      fail("ValueError",
           {entry.name, ": ", entry.params[i].name, " is on cuda:", int{bound.tensors[i]->device.device_id}, ", but ",
            entry.params[0].name, " is on cuda:", device, "; pass tensors of one device"});
  return device;
}

/// The device and stream of one call: its context is current for as long as this lives, work goes to the
/// framework's current stream of the device.
class Call {
 public:
  Call(Program& program, int device)
      : program_(program), driver_(Driver::get()), on_(program.on(device)), device_(device),
        stream_(TVMFFIEnvGetStream(kDLCUDA, device)) {
    CuContext current = nullptr;
    driver_.check(driver_.current_context(&current), "cuCtxGetCurrent");
    if (current != on_.context) {
      driver_.check(driver_.push_context(on_.context), "cuCtxPushCurrent");
      pushed_ = true;
    }
  }
  ~Call() {
    CuContext popped;
    if (pushed_) driver_.pop_context(&popped);
  }
  Call(Call const&) = delete;
  Call& operator=(Call const&) = delete;

  DLDevice device() const { return DLDevice{kDLCUDA, device_}; }

  /// As many blocks of kernel `i` as the device holds at once.
  std::int64_t resident(int i) const { return static_cast<std::int64_t>(on_.resident[i]) * on_.processors; }

  /// The smaller of `wanted` and what is resident, for kernels whose blocks take work in turns; even, as such blocks
  /// work in pairs.
  std::int64_t persistent(int i, std::int64_t wanted) const {
    const std::int64_t held = resident(i);
    return (wanted < held ? wanted + 1 : held) / 2 * 2;
  }

  /// The counter pair of a launch with a grid barrier.
  void* barrier() const { return reinterpret_cast<void*>(on_.barriers.pair(driver_, stream_)); }

  /// Launch kernel `i` over `grid` blocks; none is no launch.
  void launch(int i, std::int64_t grid, void** args, LaunchForm form = {}) const {
    if (grid <= 0) return;
    Kernel const& k = program_.kernel(i);
    const bool together = k.cooperative || form.cooperative;
    check_grid(i, k, grid, together, form.cluster);
    CuLaunchAttribute attributes[2]{};
    unsigned count = 0;
    if (together) {
      attributes[count].id = 2;
      attributes[count++].value.cooperative = 1;
    } else if (k.overlaps && on_.overlaps && !form.apart) {
      attributes[count].id = 6;
      attributes[count++].value.programmatic = 1;
    }
    if (form.cluster > 1) {
      attributes[count].id = 4;
      unsigned(&extents)[3] = attributes[count++].value.cluster;
      extents[0] = static_cast<unsigned>(form.cluster), extents[1] = extents[2] = 1;
    }
    CuLaunchConfig config{{static_cast<unsigned>(grid), 1, 1},
                          {static_cast<unsigned>(k.block), 1, 1},
                          static_cast<unsigned>(on_.shared[i]),
                          stream_,
                          count > 0 ? attributes : nullptr,
                          count};
    const int code = driver_.launch(&config, on_.functions[i], args, nullptr);
    if (code != 0) driver_.check(code, k.label);
  }

 private:
  void check_grid(int i, Kernel const& k, std::int64_t grid, bool together, int cluster) const {
    if (grid > 0x7fffffff)
      fail("ValueError", {k.label, " needs ", grid, " blocks, more than a launch takes; split the call"});
    if (grid % cluster != 0)
      fail("ValueError", {k.label, " is launched in clusters of ", cluster, " blocks, which do not divide its ", grid,
                          " blocks; make the grid a multiple, or leave cluster= out"});
    if (together && grid > resident(i))
      fail("RuntimeError", {k.label, k.cooperative ? " has a grid barrier" : " is launched cooperatively",
                            ", so that all of its ", grid, " blocks must be resident at once, and cuda:", device_,
                            " holds ", resident(i), "; use fewer or smaller blocks"});
  }

  Program& program_;
  Driver const& driver_;
  Program::OnDevice const& on_;
  int device_;
  CuStream stream_;
  bool pushed_ = false;
};

}  // namespace host
}  // namespace tilefoundry
