/**
 * The sums of the bytes of tensors, by which a process sees that it has mapped what was loaded.
 *
 * @module
 */
import type { DeviceBuffer } from "../../mod.ts";
import { ptx } from "../../kernels/histogram.ts";
import { printable } from "../command_line.ts";
import { fullGrid } from "../sample_devices.ts";
import { formatTable } from "../table.ts";
import type { SafetensorsTensor } from "../../safetensors.ts";

/** Sums the bytes of tensors by a kernel, which counts how often each value occurs. */
export async function sumBytes(
  weights: DeviceBuffer,
  tensors: readonly SafetensorsTensor[],
  signal: AbortSignal,
): Promise<readonly number[]> {
  const { device } = weights;
  using stream = device.createStream();
  using pool = device.createPool();
  using module = device.loadModule(ptx);
  using bins = pool.allocateArray(Uint32Array, 256, stream);
  const histogram = module.kernel("histogram");
  const sums: number[] = [];
  for (const { byteOffset, byteLength } of tensors) {
    bins.fill(0);
    const bytes = weights.subarray(byteOffset, byteOffset + byteLength).as(Uint8Array);
    histogram.launch({ ...fullGrid(device, histogram), stream }, bytes, byteLength, bins);
    const counts = await bins.read(Uint32Array, { signal });
    sums.push(counts.reduce((sum, count, value) => sum + count * value, 0));
  }
  return sums;
}

/** A table of tensors with their sums. */
export function formatTensors(tensors: readonly SafetensorsTensor[], sums: readonly number[]): string {
  const rows = tensors.map(({ name, dtype, shape, byteOffset, byteLength }, index) =>
    [printable(name), printable(dtype), `[${shape}]`, byteOffset, byteLength, sums[index]!].map(String)
  );
  return formatTable([["tensor", "dtype", "shape", "byteOffset", "byteLength", "sum of bytes"], ...rows]);
}

/**
 * Compares sums with those that the file states, and prints how many are right.
 *
 * @throws {Error} If one is wrong
 */
export function checkSums(
  tensors: readonly SafetensorsTensor[],
  sums: readonly number[],
  stated: ReadonlyMap<string, number>,
): void {
  let right = 0;
  for (const [index, { name }] of tensors.entries()) {
    const expected = stated.get(name);
    if (expected === undefined) continue;
    if (expected !== sums[index]) {
      throw new Error(`The bytes of ${JSON.stringify(name)} add up to ${sums[index]}, and in the file to ${expected}`);
    }
    right++;
  }
  console.log(right === 0 ? "The file states no sums" : `${right} sums are right`);
}

/** At most so many of a list, from everywhere in it. */
export function someOf<Item>(list: readonly Item[], count: number): readonly Item[] {
  if (list.length <= count) return list;
  return Array.from({ length: count }, (_, index) => list[Math.floor(index * list.length / count)]!);
}
