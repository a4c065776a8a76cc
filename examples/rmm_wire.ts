/**
 * The wire format of RMM's `pool_exporter` and `pool_importer`, in little-endian order: the device as int32, the
 * buffer's size as uint64, one byte `F` with the pool's descriptor, and the pointer's 64 bytes of export data. The
 * importer answers with one byte `D` when it is done.
 *
 * @module
 */
import type { ShareableHandle, UnixSocket } from "../mod.ts";

/** The default socket path of both programs. */
export const defaultSocketPath = "/tmp/rmm_ipc_pool.sock";

/** An exporter's offer: a pool, and a buffer in it. */
export interface Offer {
  readonly targetGpu: number;
  readonly byteLength: number;
  /** The receiver disposes of it. */
  readonly pool: ShareableHandle;
  readonly exportData: Uint8Array;
}

const [poolMark, doneMark] = new TextEncoder().encode("FD") as unknown as [number, number];
const numbersByteLength = 12;
const exportDataByteLength = 64;

/** Sends an offer. */
export async function sendOffer(socket: UnixSocket, offer: Offer, signal: AbortSignal): Promise<void> {
  const numbers = new DataView(new ArrayBuffer(numbersByteLength));
  numbers.setInt32(0, offer.targetGpu, true);
  numbers.setBigUint64(4, BigInt(offer.byteLength), true);
  await socket.send(new Uint8Array(numbers.buffer), { signal });
  await socket.send(Uint8Array.of(poolMark), { handles: [offer.pool], signal });
  await socket.send(offer.exportData, { signal });
}

/** Receives an offer and checks what needs no CUDA call. */
export async function receiveOffer(socket: UnixSocket, signal: AbortSignal): Promise<Offer> {
  const { bytes } = await socket.receive(numbersByteLength, { signal });
  const numbers = new DataView(bytes.buffer);
  const targetGpu = numbers.getInt32(0, true);
  const byteLength = Number(numbers.getBigUint64(4, true));
  if (targetGpu < 0 || byteLength === 0 || !Number.isSafeInteger(byteLength)) {
    throw new Error(
      `Cannot take the offer of ${byteLength} bytes on device ${targetGpu}: these numbers are invalid`,
    );
  }
  const { bytes: [mark], handles: [pool] } = await socket.receive(1, { handles: 1, signal });
  try {
    if (mark !== poolMark) throw new Error(`Cannot take the offer: the byte beside the descriptor is ${mark}, not "F"`);
    const { bytes: exportData } = await socket.receive(exportDataByteLength, { signal });
    return { targetGpu, byteLength, pool: pool!, exportData };
  } catch (error) {
    pool![Symbol.dispose]();
    throw error;
  }
}

/** Reports that the importer is done. */
export async function sendDone(socket: UnixSocket, signal: AbortSignal): Promise<void> {
  await socket.send(Uint8Array.of(doneMark), { signal });
}

/** Waits until the importer reports that it is done. */
export async function receiveDone(socket: UnixSocket, signal: AbortSignal): Promise<void> {
  const { bytes: [mark] } = await socket.receive(1, { signal });
  if (mark !== doneMark) throw new Error(`Cannot tell whether the importer is done: it sent the byte ${mark}, not "D"`);
}

/** Runs `exchange` with a signal that is also aborted after `seconds`. */
export async function withDeadline<T>(
  seconds: number,
  exchange: (signal: AbortSignal) => Promise<T>,
  { signal, waitingFor }: { signal: AbortSignal; waitingFor: string },
): Promise<T> {
  const deadline = AbortSignal.timeout(seconds * 1000);
  try {
    return await exchange(AbortSignal.any([signal, deadline]));
  } catch (error) {
    if (!deadline.aborted) throw error;
    throw new Error(`Cannot continue: waited ${seconds} s for ${waitingFor}`, { cause: error });
  }
}
