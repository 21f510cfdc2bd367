"""CUDA's own tools: NVRTC, nvcc, and the headers that device code includes."""

from tilefoundry.codegen.cuda.toolchain.cubin import Image, KernelResources, read_image
from tilefoundry.codegen.cuda.toolchain.cuda_headers import CudaHeaders, find_headers
from tilefoundry.codegen.cuda.toolchain.nvcc import Nvcc, find_nvcc
from tilefoundry.codegen.cuda.toolchain.nvrtc import Nvrtc, find_nvrtc
from tilefoundry.codegen.cuda.toolchain.nvrtc_precompiled import DeviceHeaders

__all__ = [
    "CudaHeaders",
    "DeviceHeaders",
    "Image",
    "KernelResources",
    "Nvcc",
    "Nvrtc",
    "find_headers",
    "find_nvcc",
    "find_nvrtc",
    "read_image",
]
