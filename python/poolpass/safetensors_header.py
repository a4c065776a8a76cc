"""The headers of safetensors files, and the indexes of models in several files. Every field is validated, because files
may come from untrusted sources."""
from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from .device_array import is_shape
from .tensor_bundle import SAFETENSORS, bits_of

PREFIX = 8
# The maximum length of a header in bytes, which is the same as in the reference implementation.
_MAXIMUM_HEADER = 100_000_000


@dataclass(frozen=True)
class FileTensor:
    """A tensor in a file. `dtype` is the format's name, and `byte_offset` is relative to the file's data."""

    name: str
    dtype: str
    shape: list[int]
    byte_offset: int
    nbytes: int


def header_length(prefix: bytes, size: int) -> int:
    """Returns the length of a header in bytes. Raises ValueError if the file has none.

    prefix: the file's first 8 bytes. `size` is the size of the file in bytes.
    """
    if len(prefix) < PREFIX:
        raise ValueError(f"it has {len(prefix)} bytes, and the length of a header alone has {PREFIX}")
    length = int.from_bytes(prefix, "little")
    if length > _MAXIMUM_HEADER:
        raise ValueError(f"its header would have {length} bytes, and the limit is {_MAXIMUM_HEADER}")
    if PREFIX + length > size:
        raise ValueError(f"its header would have {length} bytes, and the file has {size} bytes in all")
    return length


def parse_header(header: bytes, nbytes: int) -> tuple[list[FileTensor], dict[str, str]]:
    """Returns the tensors in the order of their bytes, and the file's metadata. The tensors fill the data without gaps.
    Raises ValueError, which says what is wrong.

    header: the JSON. `nbytes` is the size of the data that follows it.
    """
    if not header.startswith(b"{"):
        raise ValueError("its header does not begin with {")
    members = _parse(header, "its header")
    metadata = members.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(each, str) for each in metadata.values()):
        raise ValueError("its __metadata__ is no object of strings")
    tensors = [_tensor_of(name, described) for name, described in members.items()]
    # Among tensors with the same offset, the empty ones come first.
    tensors.sort(key=lambda each: (each.byte_offset, each.nbytes))
    end = 0
    for each in tensors:
        if each.byte_offset != end:
            where = "overlaps the one before it" if each.byte_offset < end else "leaves a gap before it"
            raise ValueError(f"tensor {each.name!r} {where}")
        end += each.nbytes
    if end != nbytes:
        raise ValueError(f"its tensors have {end} bytes, and the file has {nbytes} bytes of data")
    return tensors, metadata


def parse_index(text: bytes) -> dict[str, set[str]]:
    """Returns the names of the tensors in each file of an index, by the name of the file. Raises ValueError."""
    files: dict[str, set[str]] = {}
    names = _parse(text, "it").get("weight_map")
    if not isinstance(names, dict):
        raise ValueError("it has no object weight_map")
    for tensor, file in names.items():
        # The files are all in the index's own folder. Reject any other path.
        if not isinstance(file, str) or not re.fullmatch(r"[^/\\\0]+\.safetensors", file):
            raise ValueError(f"its weight_map has {file!r} as the file of {tensor!r}: it must be one beside the index")
        files.setdefault(file, set()).add(tensor)
    return files


def _parse(text: bytes, what: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for name, value in pairs:
            if name in members:
                raise ValueError(f"{what} has {name!r} twice")
            members[name] = value
        return members

    try:
        members = json.loads(text.decode(), object_pairs_hook=unique)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{what} is not JSON in UTF-8 ({error})") from None
    if not isinstance(members, dict):
        raise ValueError(f"{what} is no object")
    return members


def _tensor_of(name: str, described: Any) -> FileTensor:
    what = f"tensor {name!r}"
    if not isinstance(described, dict):
        raise ValueError(f"{what} is no object")
    dtype, shape, offsets = described.get("dtype"), described.get("shape"), described.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in SAFETENSORS:
        raise ValueError(f"the dtype {dtype!r} of {what} is unknown")
    if not isinstance(shape, list) or not is_shape(shape):
        raise ValueError(f"the shape of {what} is not a list of whole numbers")
    if not isinstance(offsets, list) or not is_shape(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(f"the data_offsets of {what} are not two whole numbers in order")
    bits = bits_of(SAFETENSORS[dtype]) * math.prod(shape)
    begin, end = offsets
    if bits != 8 * (end - begin):
        raise ValueError(f"{what} has {end - begin} bytes, and {dtype} of shape {shape} has {bits / 8:g}")
    return FileTensor(name, dtype, shape, begin, end - begin)
