"""Shared by the runtime's tests: toy programs, checkpoint folders, one hand-written library."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

_LIBRARY = """
#include <cstring>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
namespace ffi = tvm::ffi;
namespace {
struct Table { unsigned long size; void* sgemm; void* dgemm; };
Table table{};
int thread_count = 0;
const char* base(ffi::TensorView t) { return static_cast<const char*>(t.data_ptr()) + t.byte_offset(); }
int64_t count(ffi::TensorView t) { int64_t n = 1; for (int i = 0; i < t.ndim(); ++i) n *= t.shape()[i]; return n; }
void affine(ffi::TensorView x, ffi::TensorView w, ffi::TensorView y) {
  if (x.ndim() != 2 || x.shape()[1] != 4) TVM_FFI_THROW(ValueError) << "affine: x must be f32[N, 4]";
  auto* a = reinterpret_cast<const float*>(base(x));
  auto* b = reinterpret_cast<const float*>(base(w));
  auto* c = reinterpret_cast<float*>(const_cast<char*>(base(y)));
  for (int64_t i = 0; i < count(x); ++i) c[i] = a[i] * b[i % 4] + 1.0f;
}
void split(ffi::TensorView x, ffi::TensorView low, ffi::TensorView high) {
  auto* a = reinterpret_cast<const float*>(base(x));
  auto* p = reinterpret_cast<float*>(const_cast<char*>(base(low)));
  auto* q = reinterpret_cast<int64_t*>(const_cast<char*>(base(high)));
  for (int64_t i = 0; i < x.shape()[0]; ++i) { p[i] = -a[i]; q[2 * i] = i; q[2 * i + 1] = -i; }
}
void fill(ffi::TensorView y) {
  auto* c = reinterpret_cast<float*>(const_cast<char*>(base(y)));
  for (int64_t i = 0; i < count(y); ++i) c[i] = 7.0f;
}
bool overlap(ffi::TensorView a, ffi::TensorView b) {
  return base(a) < base(b) + 4 * count(b) && base(b) < base(a) + 4 * count(a);
}
void window(ffi::TensorView cache, ffi::TensorView row, ffi::TensorView pos, ffi::TensorView out) {
  const bool same = base(cache) == base(out) && count(cache) == count(out);
  if (overlap(out, row))
    TVM_FFI_THROW(ValueError) << "window: out overlaps the memory of row; pass an output of its own";
  if (!same && overlap(out, cache))
    TVM_FFI_THROW(ValueError) << "window: out overlaps the memory of cache; pass an output of its own";
  if (!same) std::memcpy(const_cast<char*>(base(out)), base(cache), 4 * count(cache));
  const int at = *reinterpret_cast<const int*>(base(pos));
  std::memcpy(const_cast<char*>(base(out)) + 16 * at, base(row), 16);
}
#ifdef ASKS_FOR_THREADS
int (*thread_source)() = nullptr;
int64_t threads() { return thread_source ? thread_source() : thread_count; }
#else
int64_t threads() { return thread_count; }
#endif
bool has_blas() { return table.size == sizeof(Table) && table.sgemm && table.dgemm; }
}
extern "C" __attribute__((visibility("default"))) void tilefoundry_set_blas(const Table* given) { table = *given; }
extern "C" __attribute__((visibility("default"))) void tilefoundry_set_num_threads(int n) { thread_count = n; }
#ifdef ASKS_FOR_THREADS
extern "C" __attribute__((visibility("default"))) void tilefoundry_set_thread_source(int (*f)()) { thread_source = f; }
#endif
TVM_FFI_DLL_EXPORT_TYPED_FUNC(affine, affine);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(split, split);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fill, fill);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(window, window);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(threads, threads);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(has_blas, has_blas);
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> str:
    """A library written by hand against the launcher ABI: four entries and two probes."""
    return _built(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="session")
def asking_library(tmp_path_factory) -> str:
    """The same library, asking its process for the thread count instead of being told."""
    return _built(tmp_path_factory.mktemp("asking"), "-DASKS_FOR_THREADS")


def _built(folder: Path, *flags: str) -> str:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler here")
    import tvm_ffi.libinfo

    source, built = folder / "by_hand.cc", folder / "by_hand.so"
    source.write_text(_LIBRARY)
    includes = [f"-I{path}" for path in dict.fromkeys(tvm_ffi.libinfo.include_paths())]
    command = [
        compiler,
        "-std=c++17",
        "-O1",
        "-shared",
        "-fPIC",
        *flags,
        *includes,
        str(source),
        "-o",
        str(built),
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return str(built)


@pytest.fixture
def x():
    """Five rows that the toy programs take."""
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def twin():
    """A loaded twin of ``toy.Tree``."""
    import toy
    from toy_twins import TreeTwin

    from tilefoundry.runtime import DictResource

    made = TreeTwin()
    made.load(DictResource(toy.tree_weights()))
    return made
