import { assertEquals } from "@std/assert";
import { ptx as blurPtx } from "../../kernels/blur.ts";
import { ptx as histogramPtx } from "../../kernels/histogram.ts";
import { ptx as mandelbrotPtx } from "../../kernels/mandelbrot.ts";
import { ptx as matrixMultiplyPtx } from "../../kernels/matrix_multiply.ts";
import { ptx as reducePtx } from "../../kernels/reduce.ts";
import { ptx as scanPtx } from "../../kernels/scan.ts";
import { ptx as transposePtx } from "../../kernels/transpose.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import { Session } from "../../src/session.ts";
import type { DeviceArray } from "../../mod.ts";
import { driversUnderTest, type DriverUnderTest } from "../support/drivers.ts";
import { isLong, test } from "../support/test.ts";

// Together more than 2^31, the elements that a signed index of 32 bits can reach.
const [rows, columns] = [65537, 32769];
const length = rows * columns;
const last = length - 1;
const neededBytes = 2.2 * length * 4;

function reasonWithoutMemory(driver: DriverUnderTest): string | false {
  if (driver.skip !== false || !isLong) return driver.skip;
  const opened = driver.open();
  const { free } = opened.memGetInfo(0);
  opened.close();
  return free < neededBytes && "the GPU has too little memory free";
}

async function read<T extends Float32Array | Uint32Array>(array: DeviceArray<T>, index: number): Promise<number> {
  return (await array.subarray(index, index + 1).toTypedArray())[0]!;
}

// The software device has no room for these sizes.
for (const driver of driversUnderTest.filter(({ name }) => name === "cuda")) {
  test(`ready kernels reach elements beyond 2^31 [${driver.name}]`, {
    skip: reasonWithoutMemory(driver),
    long: true,
  }, async () => {
    using cuda = new Cuda(new Session(driver.open()));
    const gpu = cuda.device(0);
    using stream = gpu.createStream();
    using pool = gpu.createPool();
    using words = pool.allocateArray(Uint32Array, length, stream);
    using others = pool.allocateArray(Uint32Array, length, stream);
    using small = pool.allocateArray(Uint32Array, rows, stream);
    const [floats, otherFloats, smallFloats] = [words, others, small].map((array) => array.as(Float32Array));
    const kernel = (ptx: string, name: string) => gpu.loadModule(ptx).kernel(name);
    const line = { grid: 512, block: 256, stream };
    const plane = { grid: [512, 512], block: [32, 8], stream } as const;

    words.fill(0);
    floats!.fill(1.5, stream, { begin: last - 1 });
    for (const [name, expected] of [["reduce_sum", 3], ["reduce_max", 1.5]] as const) {
      const reduce = kernel(reducePtx, name);
      reduce.launch(line, words, length, small);
      reduce.launch({ ...line, grid: 1 }, small, line.grid, small);
      assertEquals(await read(smallFloats!, 0), expected, name);
    }

    kernel(transposePtx, "transpose").launch(plane, words, others, rows, columns);
    const transposed = [0, columns - 2, columns - 1].map((row) => read(otherFloats!, row * rows + rows - 1));
    assertEquals(await Promise.all(transposed), [0, 1.5, 1.5], "transpose");

    smallFloats!.fill(3);
    const square = { ...plane, block: [16, 16] } as const;
    kernel(matrixMultiplyPtx, "matrix_multiply").launch(square, small, small, others, rows, columns, 1);
    assertEquals([await read(otherFloats!, 0), await read(otherFloats!, last)], [9, 9], "matrix_multiply");

    words.fill(1);
    kernel(scanPtx, "scan_totals").launch(line, words, length, small);
    kernel(scanPtx, "scan_exclusive").launch({ ...line, grid: 1 }, small, line.grid, small, 0n);
    kernel(scanPtx, "scan_inclusive").launch(line, words, length, words, small);
    assertEquals([await read(words, 1000), await read(words, last)], [1001, length], "scan");

    // Three ones, and otherwise zeros and the last byte: 2^33 bytes and more.
    words.fill(0);
    words.fill(0xff010101, stream, { begin: last });
    small.fill(0);
    kernel(histogramPtx, "histogram").launch(line, words, length * 4, small);
    const bins = await small.subarray(0, 256).toTypedArray();
    assertEquals([bins[0], bins[1], bins[255]], [(length * 4 - 4) % 2 ** 32, 3, 1], "histogram");

    words.fill(0x40302010, stream, { begin: last - columns - 1 });
    smallFloats!.fill(1);
    for (const name of ["blur_rows", "blur_columns"]) {
      kernel(blurPtx, name).launch(plane, words, others, columns, rows, small, 0);
      assertEquals([await read(others, 0), await read(others, last)], [0, 0x40302010], name);
    }

    kernel(mandelbrotPtx, "mandelbrot").launch(plane, words, columns, rows, 2 - columns, 2 - rows, 1, 9);
    // At 1 + i, the circle is left after two iterations; farther out, after one.
    assertEquals([await read(words, 0), await read(words, last)], [1, 2], "mandelbrot");
  });
}
