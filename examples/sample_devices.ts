/**
 * What both of NVIDIA's IPC samples do with devices: the parent picks those that can share, the children write one after
 * the other to the buffer of each.
 *
 * @module
 */
import type { Cuda, CudaDevice, CudaKernel, CudaStream, DeviceBuffer } from "../mod.ts";

/** Bytes of each device's buffer, as in the samples. */
export const bufferByteLength: number = 64 * 2 ** 20;
const threadsPerBlock = 512;
const computeModeDefault = 0;

/**
 * The devices that `canShare` takes, and that are peers of all picked before them, with peer access enabled both ways. Says
 * why another is left out.
 */
export function pickDevices(cuda: Cuda, { refusal, most }: {
  /** Why a device cannot take part; undefined where it can. */
  refusal: (device: CudaDevice) => string | undefined;
  most: number;
}): CudaDevice[] {
  const picked: CudaDevice[] = [];
  for (const device of cuda.devices) {
    if (picked.length === most) break;
    const stranger = picked.find((other) => !device.canAccessPeer(other) || !other.canAccessPeer(device));
    const reason = refusal(device) ??
      (device.attribute("computeMode") === computeModeDefault ? undefined : "it is not open to several processes") ??
      (stranger === undefined ? undefined : `it is no peer of device ${stranger.ordinal}`);
    if (reason !== undefined) {
      console.log(`Device ${device.ordinal} is left out: ${reason}`);
      continue;
    }
    for (const other of picked) {
      device.enablePeerAccess(other);
      other.enablePeerAccess(device);
    }
    picked.push(device);
  }
  if (picked.length === 0) throw new Error("No device can take part");
  return picked;
}

/** The device that the parent calls so, in a process that may see others, in another order. */
export function findDevice(cuda: Cuda, { uuid, number }: { uuid: string; number: number }): CudaDevice {
  const found = cuda.devices.find((device) => device.uuid === uuid);
  if (found !== undefined) return found;
  const seen = cuda.devices.map((device) => device.uuid).join(", ");
  throw new Error(`Cannot take part: this process does not see the group's device ${number}, ${uuid}, only ${seen}`);
}

/** As many blocks as run at once. */
export function fullGrid(device: CudaDevice, kernel: CudaKernel): { grid: number; block: number } {
  const blocks = kernel.maxActiveBlocksPerMultiprocessor(threadsPerBlock);
  return { grid: blocks * device.attribute("multiProcessorCount"), block: threadsPerBlock };
}

/** The pattern that makes a kernel which writes words write the same byte everywhere. */
export function patternOf(byte: number): number {
  return byte * 0x01010101;
}

/** Throws unless every byte of the buffer has the value. */
export async function verify(buffer: DeviceBuffer, value: number, stream: CudaStream): Promise<void> {
  const bytes = await buffer.read(Uint8Array, { stream });
  const wrong = bytes.findIndex((byte) => byte !== value);
  if (wrong >= 0) throw new Error(`Byte ${wrong} is ${bytes[wrong]}, and should be ${value}`);
}
