/**
 * The kernels in `frames.cu`, and the numbers that they keep of each frame.
 *
 * @module
 */
import type { CudaDevice, CudaKernel, DeviceBuffer, LaunchOptions } from "../../mod.ts";

/** Bytes that a kernel keeps of a frame. */
export const numbersByteLength = 24;

const vectorByteLength = 16;
const block = 256;
/** As many blocks as a GPU has at once. */
const maximumGrid = 1024;

/** How a kernel is launched for a slot: with these arguments, after the slot's buffer. */
export interface FrameLaunch {
  readonly shape: Pick<LaunchOptions, "grid" | "block">;
  readonly vectors: number;
}

/** A kernel, whose module stays loaded as long as the device is open. */
export function loadKernel(device: CudaDevice, name: "write_frame" | "read_frame" | "read_clock"): CudaKernel {
  const ptx = Deno.readTextFileSync(new URL("./frames.ptx", import.meta.url));
  return device.loadModule(ptx).kernel(name);
}

export function frameLaunch(slotByteLength: number): FrameLaunch {
  const vectors = slotByteLength / vectorByteLength;
  return { shape: { grid: Math.min(maximumGrid, Math.ceil(vectors / block)), block }, vectors };
}

/** What the kernels noted of each frame, as times after a base. */
export async function readNumbers(
  numbers: DeviceBuffer,
  base: bigint,
): Promise<{ starts: number[]; ends: number[]; wrongWords: number[] }> {
  const words = await numbers.read(BigUint64Array);
  const starts: number[] = [];
  const ends: number[] = [];
  const wrongWords: number[] = [];
  for (let i = 0; i < words.length; i += 3) {
    starts.push(Number(BigInt.asUintN(64, ~words[i]!) - base));
    ends.push(Number(words[i + 1]! - base));
    wrongWords.push(Number(words[i + 2]!));
  }
  return { starts, ends, wrongWords };
}
