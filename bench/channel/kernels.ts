/**
 * The kernels in `frames.cu`, and the numbers that they record for each frame.
 *
 * @module
 */
import type { CudaDevice, CudaKernel, DeviceBuffer, LaunchOptions } from "../../mod.ts";

/** The number of bytes that a kernel records for each frame. */
export const numbersByteLength = 24;

const vectorByteLength = 16;
const block = 256;
/** About as many blocks as a GPU runs at once. */
const maximumGrid = 1024;

/** The launch of a kernel for a slot. */
export interface FrameLaunch {
  readonly shape: Pick<LaunchOptions, "grid" | "block">;
  /** The kernel's second argument, after the slot's buffer: the number of 16-byte vectors in the slot. */
  readonly vectors: number;
}

/** Loads a kernel. Its module stays loaded as long as the device is open. */
export function loadKernel(device: CudaDevice, name: "write_frame" | "read_frame" | "read_clock"): CudaKernel {
  const ptx = Deno.readTextFileSync(new URL("./frames.ptx", import.meta.url));
  return device.loadModule(ptx).kernel(name);
}

export function frameLaunch(slotByteLength: number): FrameLaunch {
  const vectors = slotByteLength / vectorByteLength;
  return { shape: { grid: Math.min(maximumGrid, Math.ceil(vectors / block)), block }, vectors };
}

/** Reads what the kernels recorded for each frame, with times relative to `base`. */
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
