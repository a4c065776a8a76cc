/**
 * Shared by the ports of NVIDIA's IPC samples: the parent picks the devices that can share, and the children write
 * to the buffer of each device in turn.
 *
 * @module
 */
import type { Cuda, CudaDevice, CudaKernel, CudaStream, DeviceBuffer } from "../mod.ts";

/** The size of each device's buffer in bytes, as in the samples. */
export const bufferByteLength: number = 64 * 2 ** 20;
const threadsPerBlock = 512;
const computeModeDefault = 0;

/**
 * Picks the devices that `refusal` accepts and that are peers of all devices picked before, and enables peer access in
 * both directions. Prints why a device is left out.
 */
export function pickDevices(cuda: Cuda, { refusal, most }: {
  /** Returns why a device cannot take part; undefined if it can. */
  refusal: (device: CudaDevice) => string | undefined;
  most: number;
}): CudaDevice[] {
  const picked: CudaDevice[] = [];
  for (const device of cuda.devices) {
    if (picked.length === most) break;
    const nonPeer = picked.find((other) => !device.canAccessPeer(other) || !other.canAccessPeer(device));
    const reason = refusal(device) ??
      (device.attribute("computeMode") === computeModeDefault ? undefined : "it is not open to several processes") ??
      (nonPeer === undefined ? undefined : `it is not a peer of device ${nonPeer.ordinal}`);
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

/** Finds the device that the parent means; this process may see other devices, in another order. */
export function findDevice(cuda: Cuda, { uuid, number }: { uuid: string; number: number }): CudaDevice {
  const found = cuda.devices.find((device) => device.uuid === uuid);
  if (found !== undefined) return found;
  const seen = cuda.devices.map((device) => device.uuid).join(", ");
  throw new Error(`Cannot take part: this process does not see the group's device ${number}, ${uuid}, only ${seen}`);
}

/** Returns the largest grid whose blocks all run at once. */
export function fullGrid(device: CudaDevice, kernel: CudaKernel): { grid: number; block: number } {
  const blocks = kernel.maxActiveBlocksPerMultiprocessor(threadsPerBlock);
  return { grid: blocks * device.attribute("multiProcessorCount"), block: threadsPerBlock };
}

/** Returns the word whose four bytes all have this value. */
export function patternOf(byte: number): number {
  return byte * 0x01010101;
}

/** Reads a buffer and throws unless every byte has this value. */
export async function verify(buffer: DeviceBuffer, value: number, stream: CudaStream): Promise<void> {
  const bytes = await buffer.read(Uint8Array, { stream });
  // Ten times as fast as `findIndex`.
  for (let index = 0; index < bytes.length; index++) {
    if (bytes[index] !== value) throw new Error(`Byte ${index} is ${bytes[index]}, and should be ${value}`);
  }
}
