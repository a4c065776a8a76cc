/**
 * Previews of device memory: samples of a few elements, read without blocking and without disturbing the program.
 *
 * @module
 */
import { allocationOf, type DeviceBuffer } from "../memory/device_buffer.ts";
import { copyToHost } from "../memory/transfers/copies.ts";
import type { CudaDevice } from "../objects/cuda_device.ts";
import { sessionOfDevice } from "../objects/device_sessions.ts";
import { progressOf } from "../objects/streams/cuda_stream.ts";
import type { TypedArray, TypedArrayConstructor } from "../support/validation.ts";
import { waitUntil, whenDone } from "../support/waiting/waiting.ts";

/**
 * The limits of a preview: the number of bytes and elements to read, and the milliseconds to wait for the buffer's
 * stream.
 */
const most = { bytes: 4096, elements: 1024, milliseconds: 2000 };
/**
 * The number of elements at each end of a vector, and of rows and columns at each edge of a matrix, that are always
 * read.
 */
const endsOf = { vector: 8, matrix: 3 };

/**
 * A sample of a matrix: the elements in the given rows and columns, in row-major order. Always includes the first and
 * last `ends` rows and columns.
 */
export interface Preview {
  readonly rows: readonly number[];
  readonly columns: readonly number[];
  readonly elements: TypedArray;
  readonly ends: number;
}

/**
 * Reads a sample of a matrix: elements that are spread evenly, and those at the edges. Reads all elements if there are
 * only a few.
 *
 * @throws {Error} If the memory cannot or must not be read now; the message says why
 */
export async function readPreview(
  buffer: DeviceBuffer,
  { type, rows, columns }: { type: TypedArrayConstructor<TypedArray>; rows: number; columns: number },
): Promise<Preview> {
  const size = type.BYTES_PER_ELEMENT;
  const count = Math.min(most.elements, most.bytes / size);
  const [ends, side] = rows === 1 ? [endsOf.vector, count] : [endsOf.matrix, Math.floor(Math.sqrt(count))];
  const indexes = (length: number) => spread(length, rows * columns <= count ? length : side, ends);
  const read = { rows: indexes(rows), columns: indexes(columns) };
  const begins = read.rows.flatMap((row) => read.columns.map((column) => (row * columns + column) * size));
  return { ...read, ends, elements: new type((await readElements(buffer, begins, size)).buffer) };
}

/**
 * Returns at most `count` ascending indexes below `length`, spread evenly, always including the first and last `ends`
 * indexes.
 */
function spread(length: number, count: number, ends: number): number[] {
  if (length <= count) return Array.from({ length }, (_, index) => index);
  const step = (length - 2 * ends) / (count - 2 * ends);
  return Array.from({ length: count }, (_, index) => {
    const fromEnd = count - index;
    return index < ends ? index : fromEnd <= ends ? length - fromEnd : Math.floor(ends + (index - ends + 0.5) * step);
  });
}

/** Reads elements at ascending offsets of a buffer, once the stream has completed its earlier work. */
async function readElements(
  buffer: DeviceBuffer,
  begins: readonly number[],
  size: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const allocation = allocationOf(buffer);
  const { session, session: { driver, staging } } = allocation;
  const { address, stream } = buffer;
  const end = allocation.owner.lenderEnd?.();
  if (end !== undefined) throw new Error(end);
  checkUndisturbed(buffer.device);
  const copy = staging.acquire(stream, most.bytes);
  const letGo = allocation.hold();
  const isDone = () => {
    checkUndisturbed(buffer.device);
    return session.withoutCollectiveErrors(() => driver.eventQuery(copy.event));
  };
  const signal = AbortSignal.timeout(most.milliseconds);
  const complete = async () => {
    driver.eventRecord(stream.device.ordinal, copy.event, stream.unsafeHandle);
    copy.position = progressOf(stream).record();
    await waitUntil(isDone, { signal }, () => "the earlier work of its stream");
    progressOf(stream).complete(copy.position);
  };
  try {
    // Enqueue the copies only when the stream is idle: enqueuing this many on a busy stream may block.
    await complete();
    if (allocation.isUnloaded) throw new ReferenceError("its module was disposed");
    const host = new Uint8Array(copy.allocation.buffer, 0, begins.length * size);
    for (let first = 0, next = 1; first < begins.length; first = next++) {
      while (begins[next] === begins[next - 1]! + size) next++;
      const place = { allocation, address: address + BigInt(begins[first]!) };
      copyToHost(place, host.subarray(first * size, next * size), stream);
    }
    await complete();
    return host.slice();
  } finally {
    letGo();
    // The device may still write to pending staging memory, unless the device is lost or the session has ended.
    whenDone(isDone, (error) => error === undefined && staging.release(copy));
  }
}

/**
 * Throws if the device is not in use, or if a stream is being captured, because many driver calls would invalidate the
 * capture. With `mayLoad`, also throws if loading code would have to wait for pending work.
 */
export function checkUndisturbed(device: CudaDevice, { mayLoad = false }: { mayLoad?: boolean } = {}): void {
  const { driver, streams } = sessionOfDevice(device);
  const used = driver.usedDevices();
  const open = [...streams].filter(({ disposed, device }) => !disposed && used.includes(device.ordinal))
    .map(({ device, unsafeHandle }) => [device.ordinal, unsafeHandle] as const);
  const isIdle = () => open.every((stream) => driver.streamQuery(...stream, { peek: true, forLibrary: true }));
  if (!used.includes(device.ordinal)) throw new Error("the device is not in use yet");
  if (open.some((stream) => driver.streamIsCapturing(...stream))) throw new Error("a stream is captured in a graph");
  if (mayLoad && driver.loadingBlocks && !isIdle()) throw new Error("work is pending");
}
