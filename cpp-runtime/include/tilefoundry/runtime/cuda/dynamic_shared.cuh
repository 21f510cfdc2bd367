/// \file dynamic_shared.cuh
/// The shared memory that a launch gives a kernel.
#pragma once

/// Dynamic shared memory of the kernel as an array of bytes at a multiple of 1024; a host that runs kernels for tests
/// has static memory instead.
#if defined(__CUDACC__)
#define TILEFOUNDRY_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#else
#define TILEFOUNDRY_DYNAMIC_SHARED(name) alignas(1024) static unsigned char name[128 * 1024]
#endif
