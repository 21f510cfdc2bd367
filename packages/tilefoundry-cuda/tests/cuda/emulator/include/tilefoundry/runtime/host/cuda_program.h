/// \file cuda_program.h
/// The emulator's form of the header of this name: launches run the kernels on the calling CPU thread.
#pragma once

#include <cstdint>
#include <string>

#include <tilefoundry/runtime/host/arguments.h>

namespace tilefoundry {
namespace host {

struct Kernel {
  const char* symbol;
  const char* label;
  int image, block;
  const char* shared_symbol;
  bool cooperative, overlaps;
};

struct LaunchForm {
  int cluster = 1;
  bool cooperative = false, apart = false;
};

}  // namespace host
}  // namespace tilefoundry

/// Generated with the images: run the kernel called `symbol`.
std::string emulated_launch(const char* symbol, void** args, unsigned grid, unsigned threads, bool cooperative);

namespace tilefoundry {
namespace host {

class Program {
 public:
  template <int Images, int Kernels>
  Program(const void* const (&)[Images], Kernel const (&kernels)[Kernels]) : kernels_(kernels) {}
  Kernel const& kernel(int i) const { return kernels_[i]; }

 private:
  Kernel const* kernels_;
};

inline int device_of(Declaration const&, Bound const&) { return 0; }

class Call {
 public:
  Call(Program& program, int) : program_(program) {}
  DLDevice device() const { return DLDevice{kDLCPU, 0}; }
  std::int64_t resident(int) const { return 4; }
  std::int64_t persistent(int i, std::int64_t wanted) const { return wanted < resident(i) ? wanted : resident(i); }
  void* barrier() const {
    static unsigned pair[2];
    return pair;
  }
  void launch(int i, std::int64_t grid, void** args, LaunchForm form = {}) const {
    if (grid <= 0) return;
    Kernel const& k = program_.kernel(i);
    if (grid % form.cluster != 0)
      fail("ValueError", {k.label, ": clusters of ", form.cluster, " blocks do not divide its ", grid, " blocks"});
    const std::string error = emulated_launch(k.symbol, args, static_cast<unsigned>(grid), static_cast<unsigned>(k.block), k.cooperative || form.cooperative);
    if (!error.empty()) fail("RuntimeError", {k.label, ": ", error.c_str()});
  }

 private:
  Program& program_;
};

}  // namespace host
}  // namespace tilefoundry
