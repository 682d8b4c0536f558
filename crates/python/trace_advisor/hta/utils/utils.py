"""Kinds and short names of kernels."""

import re
from enum import Enum

MEMORY_PREFIXES = ("Memcpy", "Memset", "dma")
COMMUNICATION_NAME = re.compile(r"^nccl.*Kernel")


class KernelType(Enum):
    """Kinds of device activity."""

    COMMUNICATION = 0
    MEMORY = 1
    COMPUTATION = 2
    OTHER = 3


class IdleTimeType(Enum):
    """Reasons why a stream is idle."""

    HOST_WAIT = 0
    KERNEL_WAIT = 1
    OTHER = 2


def is_comm_kernel(name: str) -> bool:
    """Tell whether HTA takes a kernel for communication. The analyses also recognize other libraries than NCCL."""
    return COMMUNICATION_NAME.match(name) is not None


def is_memory_kernel(name: str) -> bool:
    """Tell whether a device activity is a copy or a fill."""
    return name.startswith(MEMORY_PREFIXES)


def is_compute_kernel(name: str) -> bool:
    """Tell whether a device activity computes."""
    return not (is_comm_kernel(name) or is_memory_kernel(name) or "Sync" in name)


def get_kernel_type(name: str) -> str:
    """Name the kind of a device activity: a member of `KernelType`."""
    if is_comm_kernel(name):
        return KernelType.COMMUNICATION.name
    if is_memory_kernel(name):
        return KernelType.MEMORY.name
    return KernelType.COMPUTATION.name if is_compute_kernel(name) else KernelType.OTHER.name


def get_memory_kernel_type(name: str) -> str:
    """Name the kind of a copy or fill: ``Memset`` or ``Memcpy`` with its direction."""
    if name.startswith("Memset"):
        return "Memset"
    return name[: len("Memcpy DtoH")] if name.startswith("Memcpy") else "Memcpy Unknown"


def shorten_name(name: str) -> str:
    """Drop the return type, template arguments and arguments of a name."""
    if is_memory_kernel(name) or not ("<" in name or "(" in name):
        return name
    short = ""
    opening = {">": "<", ")": "("}
    for char in name.replace("->", ""):
        if char in opening:
            short = short[: max(short.rfind(opening[char]), 0)]
        else:
            short += char
    return short.rsplit(" ", 1)[-1]
