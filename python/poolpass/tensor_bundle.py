"""Several tensors in one piece of memory, as metadata lists them."""
from __future__ import annotations

import math
from typing import Any

from .device_array import is_shape
from .dtypes import DTYPES, UINT8, DType, array_of
from .errors import SharingError
from .records import Value

# Maps the names of element types in safetensors files to the names in metadata.
SAFETENSORS = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "F32": "float32", "F64": "float64", "BF16": "bfloat16",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "F4": "float4_e2m1fn",
    "F6_E2M3": "float6_e2m3fn", "F6_E3M2": "float6_e3m2fn",
}
SAFETENSORS_NAMES = {name: safetensors for safetensors, name in SAFETENSORS.items()}
# The sizes in bits of element types that are smaller than a byte.
_BITS = {"float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4}


def bits_of(dtype: str) -> int:
    """Returns the size in bits of an element, given the name in metadata of its type."""
    return _BITS.get(dtype) or 8 * DTYPES[dtype].itemsize


class BundledTensor(Value):
    """A tensor, and where it lies."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    byte_offset: int

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)


def tensors_of(metadata: Any, nbytes: int, what: str) -> list[BundledTensor]:
    """The tensors that metadata of another process lists. Raises SharingError if one is not in the memory."""
    tensors = metadata.get("tensors") if isinstance(metadata, dict) else None
    if not isinstance(tensors, list):
        raise SharingError("bad-message", f"Cannot use the tensors of {what}: its metadata lists none")
    found = [_tensor_of(each, nbytes) for each in tensors]
    names = {each.name for each in found if each is not None}
    if None in found or len(names) < len(found):
        raise SharingError(
            "bad-message", f"Cannot use the tensors of {what}: its metadata describes one that is not in its {nbytes} "
            "bytes, or one twice"
        )
    return [each for each in found if each is not None]


def _tensor_of(described: Any, nbytes: int) -> BundledTensor | None:
    if not isinstance(described, dict):
        return None
    name, shape, offset = described.get("name"), described.get("shape"), described.get("byteOffset")
    dtype = described.get("dtype")
    if not isinstance(name, str) or not isinstance(dtype, str) or not is_shape(shape):
        return None
    if not isinstance(offset, int) or not is_shape([offset]):
        return None
    dtype = SAFETENSORS.get(dtype, dtype)
    length = described.get("byteLength")
    array = array_of(dtype, shape)
    if array is None:
        # Its bytes.
        if not isinstance(length, int) or not is_shape([length]):
            return None
        if dtype in _BITS and _BITS[dtype] * math.prod(shape) != 8 * length:
            return None
        array = UINT8, (length,)
    element, sizes = array
    own = element.itemsize * math.prod(sizes)
    if length is not None and length != own or offset + own > nbytes or offset % element.itemsize != 0:
        return None
    return BundledTensor(name, element, sizes, offset)
