"""What CPU libraries get from their process. Oracle: torch's thread count, read through the library's own probe."""

import os
import threading

import pytest
import torch

from tilefoundry.ir.types import TensorType
from tilefoundry.runtime import EntryABI, ParamABI
from tilefoundry.runtime.linking import LinkedModule, host_services, load_linked_module

ABI = EntryABI("fill", (ParamABI("y", TensorType((3,), "f32")),), 1)


@pytest.fixture(params=["library", "asking_library"])
def path(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def same_threads_after():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def probe(path, name):
    import tvm_ffi

    return tvm_ffi.load_module(path).get_function(name)()


def used(path, module):
    module(torch.zeros(3))
    return probe(path, "threads")


def test_threads_follow_torch(path):
    module = load_linked_module(LinkedModule(path, "", ABI))
    assert probe(path, "has_blas")
    for count in (2, 1, 3):
        torch.set_num_threads(count)
        assert used(path, module) == count


def test_a_library_that_asks_hears_the_calling_threads_count(asking_library):
    module = load_linked_module(LinkedModule(asking_library, "", ABI))
    torch.set_num_threads(3)
    other = []

    def work():
        torch.set_num_threads(1)
        other.append(used(asking_library, module))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert other == [1]


def test_where_torch_hides_its_count_the_library_is_told(asking_library, monkeypatch):
    monkeypatch.setattr(host_services, "_TORCH_THREADS", "absent")
    host_services._torch_threads.cache_clear()
    try:
        assert host_services._torch_threads() is None
        calls = []
        told = host_services.serve_host(asking_library, calls.append)
        told("x")
        assert calls == ["x"] and told is not calls.append
    finally:
        host_services._torch_threads.cache_clear()


def test_a_forked_child_works_alone(path):
    module = load_linked_module(LinkedModule(path, "", ABI))
    torch.set_num_threads(2)
    assert used(path, module) == 2
    child = os.fork()
    if child == 0:
        code = 1
        try:
            again = load_linked_module(LinkedModule(path, "", ABI))
            code = 0 if used(path, module) == 1 and used(path, again) == 1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert used(path, module) == 2
