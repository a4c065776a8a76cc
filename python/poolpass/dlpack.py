"""DLPack capsules, legacy (0.x) and versioned (1.x): made for memory of this package, and read from other libraries.

https://dmlc.github.io/dlpack/latest/ has the structs. They are laid out by ctypes, so that no compiler is needed.
"""
from __future__ import annotations

import ctypes
import itertools
import sys
from typing import Any, Callable

from .dtypes import DType, dtype_of_dlpack
from .records import Record

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
# The version of the structs below.
VERSION = (1, 0)
READ_ONLY = 1


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _ManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _ManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


# Capsules refer to these names for as long as they exist.
_NAME = b"dltensor"
_USED_NAME = b"used_dltensor"
_VERSIONED_NAME = b"dltensor_versioned"
_USED_VERSIONED_NAME = b"used_dltensor_versioned"


def _function(name: str, result: Any, *arguments: Any) -> Any:
    # A prototype for each use: some take the address of a capsule that is being deallocated, and is no object any more.
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_Destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_new_capsule = _function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_is_valid = _function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_get_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_set_name = _function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_is_valid_at = _function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_get_pointer_at = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_clear_error = _function("PyErr_Clear", None)


class _Export(Record):
    """What a consumer may use until it calls the deleter."""

    managed: ctypes.Structure
    shape: ctypes.Array[ctypes.c_int64]
    strides: ctypes.Array[ctypes.c_int64]
    on_delete: Callable[[], None]


_exports: dict[int, _Export] = {}
_numbers = itertools.count(1)


# The functions that the callbacks call first are their arguments: at the process's end, the globals of this module are
# gone. The process takes along what it has mapped.
def _on_delete(
    address: int, clear_error: Callable[[], None] = _clear_error, is_finalizing: Callable[[], bool] = sys.is_finalizing
) -> None:
    # Called with an exception set if an expression that holds the tensor has failed. No Python code runs before it is
    # cleared.
    clear_error()
    if not is_finalizing():
        _end(address)


def _end(address: int) -> None:
    export = _exports.pop(address, None)
    if export is not None:
        export.on_delete()


def _on_destroy(
    capsule: int, clear_error: Callable[[], None] = _clear_error, is_finalizing: Callable[[], bool] = sys.is_finalizing
) -> None:
    clear_error()
    if is_finalizing():
        return
    # A consumer renames the capsule; the deleter is then called by the consumer.
    for name in (_VERSIONED_NAME, _NAME):
        if _is_valid_at(capsule, name):
            _end(_get_pointer_at(capsule, name))


# C functions that live as long as the process.
_delete = _Deleter(_on_delete)
_destroy = _Destructor(_on_destroy)


def export_capsule(
    *,
    address: int,
    shape: tuple[int, ...],
    dtype: DType,
    device: tuple[int, int],
    is_versioned: bool,
    is_read_only: bool = False,
    on_delete: Callable[[], None],
) -> Any:
    """Makes a capsule for a C-contiguous array.

    `device` is DLPack's type and number of the device. `on_delete` is called once, on any thread, when the consumer has
    no use for the memory any more, or when the capsule ends without a consumer.
    """
    managed = _ManagedTensorVersioned() if is_versioned else _ManagedTensor()
    sizes = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    # NULL would mean the same, but not every consumer of DLPack 1.2 accepts it.
    strides = (ctypes.c_int64 * max(1, len(shape)))(*contiguous_strides(shape))
    tensor = managed.tensor
    tensor.data = address
    tensor.device = _Device(*device)
    tensor.ndim = len(shape)
    tensor.dtype = _DataType(dtype.code, dtype.bits, dtype.lanes)
    tensor.shape = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    managed.context = next(_numbers)
    managed.deleter = ctypes.cast(_delete, ctypes.c_void_p)
    if isinstance(managed, _ManagedTensorVersioned):
        managed.major, managed.minor = VERSION
        managed.flags = READ_ONLY if is_read_only else 0
    place = ctypes.addressof(managed)
    _exports[place] = _Export(managed, sizes, strides, on_delete)
    try:
        return _new_capsule(place, _VERSIONED_NAME if is_versioned else _NAME, _destroy)
    except BaseException:
        del _exports[place]
        raise


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The number of elements from one index to the next, in each dimension of a C-contiguous array."""
    strides: list[int] = []
    stride = 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= size
    return tuple(reversed(strides))


class ImportedTensor(Record):
    """An array of another library. `release` tells the library that it is not used any more."""

    address: int
    shape: tuple[int, ...]
    # In elements.
    strides: tuple[int, ...]
    dtype: DType
    device_type: int
    device_id: int
    # As far as the capsule says: a legacy one does not.
    is_read_only: bool
    release: Callable[[], None]


def import_capsule(capsule: Any) -> ImportedTensor:
    """Takes an array over from a capsule, which nobody else can use from then on.

    Raises TypeError for anything else than an unused capsule, and for element types that this package has no name for.
    """
    managed: _ManagedTensor | _ManagedTensorVersioned
    if _is_valid(capsule, _VERSIONED_NAME):
        address = _get_pointer(capsule, _VERSIONED_NAME)
        managed = _ManagedTensorVersioned.from_address(address)
        is_read_only = managed.flags & READ_ONLY != 0
        if managed.major != VERSION[0]:
            raise TypeError(f"Cannot use a capsule of DLPack {managed.major}: this package knows {VERSION[0]}")
        _set_name(capsule, _USED_VERSIONED_NAME)
    elif _is_valid(capsule, _NAME):
        address = _get_pointer(capsule, _NAME)
        managed = _ManagedTensor.from_address(address)
        is_read_only = False
        _set_name(capsule, _USED_NAME)
    else:
        raise TypeError("Cannot import a DLPack capsule: it was imported before, or is none")
    deleter = managed.deleter

    def release() -> None:
        if deleter:
            _Deleter(deleter)(address)

    try:
        return _read_tensor(managed.tensor, is_read_only, release)
    except BaseException:
        release()
        raise


def _read_tensor(tensor: _Tensor, is_read_only: bool, release: Callable[[], None]) -> ImportedTensor:
    shape = tuple(tensor.shape[: tensor.ndim])
    return ImportedTensor(
        address=(tensor.data or 0) + tensor.byte_offset,
        shape=shape,
        strides=tuple(tensor.strides[: tensor.ndim]) if tensor.strides else contiguous_strides(shape),
        dtype=dtype_of_dlpack(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
        device_type=tensor.device.type,
        device_id=tensor.device.id,
        is_read_only=is_read_only,
        release=release,
    )
