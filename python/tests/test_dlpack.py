"""DLPack capsules and the array interface."""
from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import unittest
from typing import Any

import support

support.use_software_device()

from poolpass import dlpack
from poolpass.array_source import ArraySource
from poolpass.cuda import LEGACY_STREAM, NO_STREAM, PER_THREAD_STREAM, stream_handle
from poolpass.device_array import DeviceArray, array_type
from poolpass.dtypes import DTYPES, to_dtype
from poolpass.holding import Holding, UsedStreams

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]


class Memory:
    """Host memory, which counts its ends."""

    def __init__(self, nbytes: int, *, device: int | None = 0, stream: int | None = None, dtype: Any = "uint8"):
        self.memory = (ctypes.c_uint8 * nbytes)(*(index % 251 for index in range(nbytes)))
        self.ends: list[UsedStreams] = []
        element = to_dtype(dtype)
        self.array = DeviceArray(
            Holding(self.ends.append), address=ctypes.addressof(self.memory), dtype=element,
            shape=(nbytes // element.itemsize,), device=device, stream=stream, what="memory",
        )


class CapsuleTest(support.PoolpassTest):
    def test_every_type_and_version(self) -> None:
        for dtype in DTYPES.values():
            for version in (None, (1, 0), (1, 3), (2, 0)):
                with self.subTest(dtype.name, version=version):
                    memory = Memory(dtype.itemsize * 6)
                    view = memory.array.view(dtype.name, (2, 3))
                    capsule = view.__dlpack__(stream=NO_STREAM, max_version=version)
                    self.assertIn("versioned" if version else "dltensor", repr(capsule))
                    tensor = dlpack.import_capsule(capsule)
                    self.assertEqual((tensor.shape, tensor.strides, tensor.dtype), ((2, 3), (3, 1), dtype))
                    self.assertEqual((tensor.device_type, tensor.device_id), (dlpack.CUDA, 0))
                    self.assertEqual(tensor.address, ctypes.addressof(memory.memory))
                    view.release()
                    memory.array.release()
                    self.assertEqual(memory.ends, [])
                    tensor.release()
                    self.assertEqual(len(memory.ends), 1)

    def test_capsule_is_used_once(self) -> None:
        memory = Memory(4)
        capsule = memory.array.__dlpack__(stream=1)
        tensor = dlpack.import_capsule(capsule)
        self.assertRaises(TypeError, dlpack.import_capsule, capsule)
        self.assertRaises(TypeError, dlpack.import_capsule, object())
        del capsule
        memory.array.release()
        self.assertEqual(memory.ends, [])
        tensor.release()
        self.assertEqual(memory.ends, [frozenset({0})])

    def test_capsule_without_a_consumer(self) -> None:
        for version in (None, (1, 0)):
            memory = Memory(4)
            capsule = memory.array.__dlpack__(stream=7, max_version=version)
            memory.array.release()
            self.assertEqual(memory.ends, [])
            del capsule
            self.assertEqual(memory.ends, [frozenset({7})])
        self.assertEqual(dlpack._exports, {})

    def test_release_while_an_error_is_set(self) -> None:
        memory = Memory(4)
        # The argument ends with the exception set.
        with self.assertRaises((TypeError, SystemError)):
            int(memory.array.__dlpack__(stream=1), 3, 4)  # type: ignore[call-overload]
        memory.array.release()
        self.assertEqual(len(memory.ends), 1)

    def test_no_shape(self) -> None:
        memory = Memory(4)
        scalar = memory.array.view("float32", ())
        tensor = dlpack.import_capsule(scalar.__dlpack__(stream=NO_STREAM))
        self.assertEqual((tensor.shape, tensor.strides), ((), ()))
        tensor.release()

    def test_shapes_and_sizes(self) -> None:
        array = Memory(16).array
        for shape in (5, (2, 2.5), "ab", (None,)):
            with self.subTest(shape=shape):
                self.assertRaisesRegex(TypeError, "as a shape", array.view, "int8", shape)
        for shape in ((-1,), (2**70,), (2**40, 2**40), (0, 2**60)):
            with self.subTest(shape=shape):
                self.assertRaisesRegex(ValueError, "Cannot use the shape", array.view, "int8", shape)
        self.assertRaisesRegex(TypeError, "whole number", array.read, 2.5)
        self.assertRaisesRegex(ValueError, "-1", array.read, -1)
        self.assertRaisesRegex(TypeError, "whole number", array.view, byte_offset=1.0)
        self.assertEqual(array_type({"dtype": "int8", "shape": [0, 2**60]}, 0), (DTYPES["uint8"], (0,)))

    def test_arguments(self) -> None:
        array = Memory(4).array
        self.assertRaises(BufferError, array.__dlpack__, copy=True)
        self.assertRaises(BufferError, array.__dlpack__, dl_device=(1, 0))
        self.assertEqual(array.__dlpack_device__(), (dlpack.CUDA, 0))
        array.release()
        self.assertRaisesRegex(RuntimeError, "memory: it was released", array.__dlpack__)

    @unittest.skipIf(numpy is None, "there is no NumPy")
    def test_numpy_uses_host_memory_in_place(self) -> None:
        memory = Memory(8, device=None)
        there = numpy.from_dlpack(memory.array.view("int32"))
        seen = numpy.asarray(memory.array)
        self.assertEqual(there.shape, (2,))
        memory.memory[0] = 9
        self.assertEqual((there[0] & 0xFF, seen[0]), (9, 9))
        memory.array.release()
        self.assertEqual(memory.ends, [])
        del there
        gc.collect()
        self.assertEqual(len(memory.ends), 1)

    @unittest.skipIf(numpy is None, "there is no NumPy")
    def test_numpy_refuses_device_memory(self) -> None:
        memory = Memory(8)
        # Its own error, and not that there is none.
        with self.assertRaisesRegex((RuntimeError, BufferError), "(?i)device"):
            numpy.from_dlpack(memory.array)
        memory.array.release()
        self.assertEqual(len(memory.ends), 1)

    def test_capsules_that_live_to_the_end_of_the_process(self) -> None:
        program = (
            "import builtins, test_dlpack\n"
            "builtins.kept = [test_dlpack.Memory(8), test_dlpack.Memory(8).array.__dlpack__(stream=1)]\n"
            "builtins.kept.append(builtins.kept[0].array.__dlpack__(stream=1))\n"
            "memory = test_dlpack.Memory(8)\n"
            "capsule = memory.array.__dlpack__(stream=1)\n"
            "loop = [memory, capsule]\n"
            "loop.append(loop)\n"
        )
        ended = subprocess.run(
            [sys.executable, "-c", program], cwd=support.TESTS, env=support.ENVIRONMENT, capture_output=True, text=True
        )
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    @unittest.skipIf(numpy is None, "there is no NumPy")
    def test_arrays_of_numpy(self) -> None:
        array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
        self.assertIsNone(ArraySource.device_of(array))
        source = ArraySource(array, 0)
        self.assertEqual((source.shape, source.dtype.name), ((2, 3), "float32"))
        self.assertEqual(source.address, array.ctypes.data)
        source.release()
        self.assertRaisesRegex(ValueError, "make it contiguous", ArraySource, array.T, 0)
        nothing = ArraySource(numpy.zeros((0, 3), numpy.float32), 0)
        self.assertEqual(nothing.shape, (0, 3))
        nothing.release()

    @unittest.skipIf(numpy is None, "there is no NumPy")
    def test_numpy_makes_no_array_of_objects(self) -> None:
        self.assertRaisesRegex(TypeError, "device memory", numpy.asarray, Memory(8).array)

    def test_what_is_no_array(self) -> None:
        self.assertRaisesRegex(TypeError, "neither __dlpack__ nor", ArraySource.device_of, 3)


class InterfaceTest(support.PoolpassTest):
    def test_cuda_array_interface(self) -> None:
        memory = Memory(24, stream=5)
        view = memory.array.view("float16", (3, 4))
        self.assertEqual(view.__cuda_array_interface__, {
            "version": 3, "shape": (3, 4), "typestr": "<f2", "data": (ctypes.addressof(memory.memory), False),
            "strides": None, "stream": 5,
        })
        self.assertFalse(hasattr(view, "__array_interface__"))
        self.assertFalse(hasattr(memory.array.view("bfloat16"), "__cuda_array_interface__"))

    def test_default_stream_is_the_legacy_one(self) -> None:
        self.assertEqual(Memory(1, stream=0).array.__cuda_array_interface__["stream"], LEGACY_STREAM)
        self.assertIsNone(Memory(1).array.__cuda_array_interface__["stream"])

    def test_streams_of_use(self) -> None:
        for use, expected in (
            (lambda array: None, frozenset()),
            (lambda array: array.__dlpack__(stream=None), frozenset({0})),
            (lambda array: array.__dlpack__(stream=LEGACY_STREAM), frozenset({0})),
            (lambda array: array.__dlpack__(stream=9), frozenset({9})),
            (lambda array: array.__dlpack__(stream=NO_STREAM), None),
            (lambda array: array.__dlpack__(stream=PER_THREAD_STREAM), None),
            (lambda array: array.__cuda_array_interface__, None),
            (lambda array: array.address, None),
            (lambda array: (array.address, array.release(stream=9)), frozenset({9})),
        ):
            memory = Memory(4)
            use(memory.array)
            memory.array.release()
            gc.collect()
            self.assertEqual(memory.ends, [expected])

    def test_views(self) -> None:
        memory = Memory(16)
        view = memory.array.view("int32", byte_offset=4)
        self.assertEqual((view.shape, view.nbytes, view.dtype), ((3,), 12, "int32"))
        self.assertEqual(view.view("uint8", (2, 3), byte_offset=2).read(), bytes([6, 7, 8, 9, 10, 11]))
        for dtype, shape, offset in (
            ("int32", (5,), 0), ("int32", None, 2), ("int64", None, 4), ("uint8", None, 17), ("uint8", (-1,), 0),
        ):
            with self.subTest(dtype=dtype, shape=shape, offset=offset), self.assertRaises(ValueError):
                memory.array.view(dtype, shape, byte_offset=offset)
        memory.array.release()
        self.assertEqual(memory.ends, [])
        del view
        gc.collect()
        self.assertEqual(len(memory.ends), 1)

    def test_dtypes(self) -> None:
        self.assertEqual(to_dtype("bfloat16").itemsize, 2)
        of_torch = type("dtype", (), {"__str__": lambda self: "torch.float8_e4m3fn"})()
        self.assertEqual(to_dtype(of_torch).name, "float8_e4m3fn")
        if numpy is not None:
            self.assertEqual(to_dtype(numpy.float32).name, "float32")
            self.assertEqual(to_dtype(numpy.dtype("complex64")).name, "complex64")
        self.assertRaisesRegex(TypeError, "must be one of bool, int8", to_dtype, "float33")

    def test_types_that_another_process_states(self) -> None:
        for metadata, expected in (
            ({"dtype": "float32", "shape": [2, 3]}, ("float32", (2, 3))),
            ({"dtype": "float32"}, ("float32", (6,))),
            ({"dtype": "float4_e2m1fn", "shape": [2, 24]}, ("float4_e2m1fn_x2", (2, 12))),
            ({"dtype": "float4_e2m1fn", "shape": [48, 1]}, ("uint8", (24,))),
            ({"dtype": "float32", "shape": [2, 4]}, ("uint8", (24,))),
            ({"dtype": "float32", "shape": [2, -3]}, ("uint8", (24,))),
            ({"dtype": "float32", "shape": [True, 6]}, ("uint8", (24,))),
            ({"dtype": "float32", "shape": "23"}, ("uint8", (24,))),
            ({"dtype": ["float32"], "shape": [6]}, ("uint8", (24,))),
            ({"dtype": "int8", "shape": [1] * 65}, ("uint8", (24,))),
            ([1], ("uint8", (24,))),
            (None, ("uint8", (24,))),
        ):
            dtype, shape = array_type(metadata, 24)
            self.assertEqual((dtype.name, shape), expected)

    def test_stream_handles(self) -> None:
        def with_attributes(**values: Any) -> Any:
            return type("Stream", (), values)()

        self.assertEqual(stream_handle(None), 0)
        self.assertEqual(stream_handle(7), 7)
        self.assertEqual(stream_handle(with_attributes(cuda_stream=8)), 8)
        self.assertEqual(stream_handle(with_attributes(ptr=9)), 9)
        self.assertEqual(stream_handle(with_attributes(handle=ctypes.c_void_p(10))), 10)
        self.assertEqual(stream_handle(with_attributes(__cuda_stream__=lambda self: (0, 11))), 11)
        self.assertRaises(TypeError, stream_handle, "stream")


if __name__ == "__main__":
    unittest.main()
