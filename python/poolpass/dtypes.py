"""The element types of arrays: their names in metadata, and how CUDA's array interface and DLPack call them."""
from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

# Type codes of DLPack 1.1.
INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6
FLOAT8_E3M4, FLOAT8_E4M3, FLOAT8_E4M3B11FNUZ, FLOAT8_E4M3FN, FLOAT8_E4M3FNUZ = 7, 8, 9, 10, 11
FLOAT8_E5M2, FLOAT8_E5M2FNUZ, FLOAT8_E8M0FNU = 12, 13, 14

BYTE_ORDER = "<" if sys.byteorder == "little" else ">"


@dataclass(frozen=True)
class DType:
    """An element type. `typestr` is None if the array interface has no name for it."""

    name: str
    itemsize: int
    code: int
    typestr: str | None


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
]
DTYPES = {each.name: each for each in _ALL}
_BY_DLPACK = {(each.code, 8 * each.itemsize): each for each in _ALL}
_BY_TYPESTR = {each.typestr: each for each in _ALL if each.typestr is not None}
UINT8 = DTYPES["uint8"]


def find_dtype(name: object) -> DType | None:
    """Returns the element type with this name, or None: metadata comes from another process."""
    return DTYPES.get(name) if isinstance(name, str) else None


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
    found = _BY_DLPACK.get((code, bits)) if lanes == 1 else None
    if found is None:
        raise TypeError(f"Cannot use DLPack's element type {code} of {bits} bits and {lanes} lanes: cast the array")
    return found


def dtype_of_typestr(typestr: str) -> DType:
    # Bytes have no order.
    found = _BY_TYPESTR.get(typestr) or (_BY_TYPESTR.get("|" + typestr[1:]) if typestr[2:] == "1" else None)
    if found is None:
        raise TypeError(f'Cannot use elements of type "{typestr}": cast the array')
    return found
