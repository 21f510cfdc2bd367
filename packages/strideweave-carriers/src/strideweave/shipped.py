"""Puts the shipped carriers and functions into the tables that dispatch, movement and Tensor consult."""

from __future__ import annotations

from . import constructors, printing, registry
from .autograd import engine
from .carriers.base import Carrier
from .carriers.block_device import BlockDeviceCarrier
from .carriers.cpu import CPU
from .carriers.cuda import CUDA
from .carriers.evictable import provide_copy
from .carriers.file_backed import FileBacked
from .carriers.generic import Generic
from .carriers.metal import Metal
from .movement import move as moving
from .movement.cuda import BETWEEN, FROM_DEVICE, TO_DEVICE
from .movement.cuda_straight import DeviceStraight
from .movement.metal import MetalTransfer
from .movement.straight import FileStraight, HostStraight, register_straight
from .movement.transfer import Run, register_host_carrier, register_transfer, transfer_for
from .operations import cast, elementwise, unary, views
from .operations.kernels import python_family, register_family, torch_family

HOST = (Generic, CPU, FileBacked, BlockDeviceCarrier)


def _copy_whole(source: Carrier, target: Carrier, nbytes: int) -> None:
    transfer_for(type(source), type(target)).submit(source, target, (Run(0, 0, nbytes),)).result()


def install() -> None:
    """Fill the tables; called once, by the package."""
    register_family(Generic, python_family)
    for cls in (CPU, CUDA, Metal):
        register_family(cls, torch_family)
    metal = MetalTransfer()
    for cls in HOST:
        register_host_carrier(cls)
        register_transfer(cls, CUDA, TO_DEVICE)
        register_transfer(CUDA, cls, FROM_DEVICE)
        register_transfer(cls, Metal, metal)
        register_transfer(Metal, cls, metal)
    register_transfer(CUDA, CUDA, BETWEEN)
    register_transfer(Metal, Metal, metal)
    register_straight(CPU, CPU, HostStraight())
    register_straight(FileBacked, CPU, FileStraight())
    register_straight(CPU, CUDA, DeviceStraight("h2d"))
    register_straight(CUDA, CPU, DeviceStraight("d2h"))
    provide_copy(_copy_whole)
    for name, function in _FUNCTIONS.items():
        registry.provide(name, function)


_FUNCTIONS = {
    "add": elementwise.add,
    "sub": elementwise.sub,
    "mul": elementwise.mul,
    "div": elementwise.div,
    "neg": unary.neg,
    "cast": cast.cast,
    "slice": views.slice_view,
    "move": moving.move,
    "to_cpu": moving.to_cpu,
    "backward": engine.backward,
    "tolist": constructors.tolist,
    "repr": printing.text,
    "html": printing.html,
}
