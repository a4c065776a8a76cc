"""The element types of arrays: their names in metadata, and how CUDA's array interface and DLPack call them."""
from __future__ import annotations

import sys
from typing import Any, Sequence

from .records import Value

# Type codes of DLPack 1.1.
INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6
FLOAT8_E3M4, FLOAT8_E4M3, FLOAT8_E4M3B11FNUZ, FLOAT8_E4M3FN, FLOAT8_E4M3FNUZ = 7, 8, 9, 10, 11
FLOAT8_E5M2, FLOAT8_E5M2FNUZ, FLOAT8_E8M0FNU = 12, 13, 14
FLOAT4_E2M1FN = 17

BYTE_ORDER = "<" if sys.byteorder == "little" else ">"


class DType(Value):
    """An element type. `typestr` is None if CUDA's array interface cannot represent the type.

    An element may consist of several numbers, which DLPack calls lanes.
    """

    name: str
    itemsize: int
    code: int
    typestr: str | None
    lanes: int = 1

    @property
    def bits(self) -> int:
        """The number of bits of a single number."""
        return 8 * self.itemsize // self.lanes


def _of_kind(kind: str, name: str, code: int, *bits: int) -> list[DType]:
    def typestr(itemsize: int) -> str:
        return f"{BYTE_ORDER if itemsize > 1 else '|'}{kind}{itemsize}"

    return [DType(f"{name}{each}", each // 8, code, typestr(each // 8)) for each in bits]


_ALL = [
    DType("bool", 1, BOOL, "|b1"),
    *_of_kind("i", "int", INT, 8, 16, 32, 64),
    *_of_kind("u", "uint", UINT, 8, 16, 32, 64),
    *_of_kind("f", "float", FLOAT, 16, 32, 64),
    *_of_kind("c", "complex", COMPLEX, 64, 128),
    DType("bfloat16", 2, BFLOAT, None),
    DType("float8_e3m4", 1, FLOAT8_E3M4, None),
    DType("float8_e4m3", 1, FLOAT8_E4M3, None),
    DType("float8_e4m3b11fnuz", 1, FLOAT8_E4M3B11FNUZ, None),
    DType("float8_e4m3fn", 1, FLOAT8_E4M3FN, None),
    DType("float8_e4m3fnuz", 1, FLOAT8_E4M3FNUZ, None),
    DType("float8_e5m2", 1, FLOAT8_E5M2, None),
    DType("float8_e5m2fnuz", 1, FLOAT8_E5M2FNUZ, None),
    DType("float8_e8m0fnu", 1, FLOAT8_E8M0FNU, None),
    # PyTorch's name for pairs of 4-bit numbers.
    DType("float4_e2m1fn_x2", 1, FLOAT4_E2M1FN, None, lanes=2),
]
DTYPES = {each.name: each for each in _ALL}
_BY_DLPACK = {(each.code, each.bits, each.lanes): each for each in _ALL}
_BY_TYPESTR = {each.typestr: each for each in _ALL if each.typestr is not None}
UINT8 = DTYPES["uint8"]
FLOAT4_PAIR = DTYPES["float4_e2m1fn_x2"]


def find_dtype(name: object) -> DType | None:
    """Returns the element type with this name, or None: metadata comes from another process."""
    return DTYPES.get(name) if isinstance(name, str) else None


# The name of 4-bit numbers in metadata, where each number counts as an element.
_FLOAT4 = "float4_e2m1fn"


def array_of(name: object, shape: Sequence[int]) -> tuple[DType, tuple[int, ...]] | None:
    """Returns this package's element type and shape for an array that metadata describes; None if the type is unknown.

    Two 4-bit numbers form one element, so that the last dimension is halved, as in PyTorch.
    """
    if name == _FLOAT4:
        return (FLOAT4_PAIR, (*shape[:-1], shape[-1] // 2)) if shape and shape[-1] % 2 == 0 else None
    dtype = find_dtype(name)
    return None if dtype is None else (dtype, tuple(shape))


def stated(dtype: str, shape: Sequence[int]) -> tuple[str, list[int]]:
    """Returns the dtype and the shape of an array for its metadata: the inverse of `array_of`. A zero-dimensional array
    of pairs is described as an array of two numbers."""
    if dtype == FLOAT4_PAIR.name:
        return _FLOAT4, [*shape[:-1], 2 * shape[-1]] if shape else [2]
    return dtype, list(shape)


def to_dtype(value: Any) -> DType:
    """Returns the element type that a name, or a dtype of NumPy, CuPy, PyTorch or ml_dtypes, stands for.

    Raises TypeError for anything else.
    """
    if isinstance(value, DType):
        return value
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if not isinstance(name, str):
        name = str(value)
    found = DTYPES.get(name.removeprefix("torch."))
    if found is None and isinstance(value, type):
        # A scalar type, such as numpy.float32.
        found = DTYPES.get(value.__name__)
    if found is None:
        raise TypeError(f"Cannot use {value!r} as an element type: it must be one of {', '.join(DTYPES)}")
    return found


def dtype_of_dlpack(code: int, bits: int, lanes: int) -> DType:
    found = _BY_DLPACK.get((code, bits, lanes))
    if found is None:
        raise TypeError(f"Cannot use DLPack's element type {code} of {bits} bits and {lanes} lanes: cast the array")
    return found


def dtype_of_typestr(typestr: str) -> DType:
    # Bytes have no order.
    found = _BY_TYPESTR.get(typestr) or (_BY_TYPESTR.get("|" + typestr[1:]) if typestr[2:] == "1" else None)
    if found is None:
        raise TypeError(f'Cannot use elements of type "{typestr}": cast the array')
    return found


def described(metadata: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    """Metadata with the element type and the shape of an array. Metadata that is not an object is left unchanged."""
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        return metadata
    name, sizes = stated(dtype, shape)
    return {"dtype": name, "shape": sizes, **metadata}
