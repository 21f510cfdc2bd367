/// \file runtime.h
/// Umbrella of the TileFoundry C++ runtime, the one header that generated code includes.
///
/// The build defines exactly one target macro. It selects the surface; generated code never names a
/// header below `runtime/<target>/`. Feature macros (`TILEFOUNDRY_USE_<PART>`, listed in
/// `runtime/cuda/features.cuh`) narrow what the CUDA surface pulls in; without any, all of it is there.
#pragma once

#if defined(TILEFOUNDRY_TARGET_CUDA) && defined(TILEFOUNDRY_TARGET_CPU)
#error "tilefoundry/runtime.h: both TILEFOUNDRY_TARGET_CUDA and TILEFOUNDRY_TARGET_CPU are defined; define exactly one"
#elif defined(TILEFOUNDRY_TARGET_CUDA)
#if defined(TILEFOUNDRY_HOST_ENTRY)
// The host's part of a CUDA library: element types by name, and the driver; no CUDA or CuTe type.
#include <tilefoundry/runtime/cpu/dtype.h>
#include <tilefoundry/runtime/host/cuda_program.h>
#else
#include <tilefoundry/runtime/cuda/runtime.cuh>
#endif
#elif defined(TILEFOUNDRY_TARGET_CPU)
#include <tilefoundry/runtime/cpu/runtime.h>
#else
#error "tilefoundry/runtime.h: no target macro; define exactly one of TILEFOUNDRY_TARGET_CUDA and TILEFOUNDRY_TARGET_CPU"
#endif

// Units that hold an entry point, and only these, see the boundary to TVM FFI.
#if defined(TILEFOUNDRY_HOST_ENTRY)
#include <tilefoundry/runtime/host/entry.h>
#if defined(TILEFOUNDRY_RANGES)
#include <tilefoundry/runtime/host/ranges.h>
#endif
#endif
