"""A whole pool of another process."""
from __future__ import annotations

import math
import weakref
from typing import Any, Callable, Sequence

from .closing import Closing
from .cuda import stream_handle
from .device_array import DeviceArray, check_shape
from .dtypes import UINT8, to_dtype
from .errors import quoted
from .export_data import EXPORT_DATA_LENGTH
from .exporter_connection import ExporterConnection, PoolHold
from .holding import Holding
from .imported_memory import map_allocation


class ImportedMemoryPool(Closing):
    """A whole pool of another process. It allocates nothing: it maps what that process has allocated.

    Comes from `RemoteOffer.import_pool`.
    """

    def __init__(self, connection: ExporterConnection, hold: PoolHold, on_map: Callable[[DeviceArray], None]):
        self._connection = connection
        self._hold = hold
        self._on_map = on_map
        self._name = hold.state.message.name
        self._holding = Holding(lambda _: connection.release_pool(hold))
        self._end = weakref.finalize(self, self._holding.drop, self._holding.add())
        self._end.atexit = False

    @property
    def device(self) -> int | None:
        """The ordinal of the device in this process; None for host memory."""
        return self._hold.device

    @property
    def is_closed(self) -> bool:
        return not self._end.alive

    def import_pointer(
        self, export_data: bytes, nbytes: int, *, shape: Sequence[int] | None = None, dtype: Any = None,
        stream: Any = None,
    ) -> DeviceArray:
        """Maps an allocation, without a copy and without waiting for its contents.

        export_data: what `Buffer.export_pointer` of the other process returned, by whatever way it came here.
        nbytes: the size of the allocation in bytes, or less.
        shape, dtype, stream: of the array, as in `Buffer.view` and `RemoteOffer.map`.

        The process that has allocated the memory must not free it before the array is released: it does not know of
        it. Raises RuntimeError if the pool was closed, and ValueError for arguments that do not fit. Raises
        SharingError: "size-mismatch" if less was allocated; "too-large" if more than the driver can import, which is
        4 GiB or somewhat less; "bad-message" if no driver has made the export data. Raises CudaError, also for export
        data of another pool.
        """
        if self.is_closed:
            raise RuntimeError(f"Cannot import a pointer of {quoted(self._name)}: the pool was closed")
        data = bytes(export_data)
        if len(data) != EXPORT_DATA_LENGTH:
            raise ValueError(f"Cannot import {len(data)} bytes: export data has {EXPORT_DATA_LENGTH}")
        element = UINT8 if dtype is None else to_dtype(dtype)
        sizes = (nbytes // element.itemsize,) if shape is None else check_shape(shape)
        if nbytes < 1 or element.itemsize * math.prod(sizes) > nbytes or shape is None and nbytes % element.itemsize:
            raise ValueError(f"Cannot map {nbytes} bytes as {element.name} of shape {list(sizes)}: they do not fit")
        handle = None if stream is None else stream_handle(stream)
        connection, hold = self._connection, self._hold
        connection.loop.check_process()
        whole = self._holding
        user = whole.add()
        try:
            with connection.loop.lock:
                mapped = map_allocation(hold.pool, data, nbytes, is_whole=False)
        except BaseException:
            whole.drop(user)
            raise

        def on_last(streams: frozenset[int] | None) -> None:
            connection.unmap(hold, mapped, streams)
            whole.drop(user)

        array = DeviceArray(
            Holding(on_last), address=mapped.address, dtype=element, shape=sizes, device=hold.device, stream=handle,
            what=f"{nbytes} bytes of {quoted(self._name)}",
        )
        self._on_map(array)
        return array

    def close(self) -> None:
        """Releases the pool once everything that was mapped through it is released."""
        self._end()

    def __repr__(self) -> str:
        return f"<ImportedMemoryPool {quoted(self._name)}{', closed' if self.is_closed else ''}>"
