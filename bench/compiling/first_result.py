"""The same as first_result.ts with another library: `first_result.py LIBRARY COUNT`."""

import json
import pathlib
import sys
import time

import numpy

library, count = sys.argv[1], int(sys.argv[2])
template = (pathlib.Path(__file__).parent / "scale.cu").read_text()
ones = numpy.ones(256, numpy.float32)


def with_cuda_core():
    from cuda.bindings import driver
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device()
    device.set_current()
    stream = device.create_stream()
    memory = device.memory_resource.allocate(1024, stream=stream)
    result = numpy.empty(1, numpy.float32)

    def prepare():
        driver.cuMemcpyHtoD(int(memory.handle), ones.ctypes.data, 1024)

    def run(source):
        # The buffer is freed once nothing refers to it.
        address = int(memory.handle)
        options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
        module = Program(source, "c++", options).compile("cubin")
        launch(stream, LaunchConfig(grid=1, block=256), module.get_kernel("scale"), address, numpy.int32(256))
        stream.sync()
        driver.cuMemcpyDtoH(result.ctypes.data, address, 4)
        return result[0]

    return prepare, run


def with_cupy():
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    stream.use()
    x = cupy.array(ones)

    def prepare():
        x.set(ones)
        stream.synchronize()

    def run(source):
        cupy.RawKernel(source, "scale")((1,), (256,), (x, numpy.int32(256)))
        return float(x[:1].get()[0])

    return prepare, run


prepare, run = {"cuda.core": with_cuda_core, "cupy": with_cupy}[library]()
milliseconds = []
for factor in range(2, 2 + count):
    source = template.replace("FACTOR", str(factor))
    prepare()
    start = time.perf_counter()
    value = run(source)
    milliseconds.append((time.perf_counter() - start) * 1000)
    if value != factor:
        raise SystemExit(f"The kernel computed {value} instead of {factor}")
print(json.dumps({"milliseconds": milliseconds}))
