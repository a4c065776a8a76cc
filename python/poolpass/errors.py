"""What poolpass raises, besides TypeError and ValueError for wrong arguments."""
from __future__ import annotations

import errno
import re
from contextlib import contextmanager
from typing import Iterator, Literal

SharingErrorCode = Literal[
    "peer-gone", "timed-out", "bad-message", "version-mismatch", "not-permitted", "limit-exceeded", "device-lost",
    "internal-error", "device-not-visible", "size-mismatch", "address-in-use", "path-too-long", "not-found",
    "not-listening", "cut-off", "out-of-descriptors", "not-supported", "too-large",
    "in-use", "incompatible", "layout-changed", "digest-mismatch",
]


class SharingError(Exception):
    """Sharing with another process failed. `code` is the reason, for programs to compare; other codes may come."""

    code: SharingErrorCode

    def __init__(self, code: SharingErrorCode, message: str):
        # The message may quote the other process.
        super().__init__(escape_controls(message))
        self.code = code

    def __reduce__(self) -> tuple[type[SharingError], tuple[SharingErrorCode, str]]:
        return type(self), (self.code, str(self))


class SharingTimeoutError(SharingError, TimeoutError):
    """A time limit that the caller gave is over. Its code is "timed-out"."""


class CudaUnavailableError(Exception):
    """Raised if CUDA cannot be used because there are no cuda-bindings, no driver or no device, and the software device
    was not selected."""


class CudaError(Exception):
    """A CUDA call failed. `code` is CUDA's name of the error, `number` its number, and `call` the function's name."""

    code: str
    number: int
    call: str

    def __init__(self, message: str, *, code: str, number: int, call: str):
        super().__init__(message)
        self.code = code
        self.number = number
        self.call = call


CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    """Escapes the characters that control a terminal: another process may have chosen them."""
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def quoted(name: str) -> str:
    """A name in double quotes, with its quotes and control characters escaped: another process may have chosen it."""
    return '"' + escape_controls(name.replace("\\", "\\\\").replace('"', '\\"')) + '"'


@contextmanager
def needing_descriptors(action: str) -> Iterator[None]:
    """Raises a SharingError for the error that the process may open no more descriptors."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        text = f"Cannot {action}: no descriptor is left; raise `ulimit -n`"
        raise SharingError("out-of-descriptors", text) from error
