/**
 * Streams that somebody else owns: another library of the process, or other code of the program.
 *
 * @module
 */
import { defaultStream, legacyStream, perThreadStream, streamFlags } from "../../driver.ts";
import type { Session } from "../../session.ts";
import { cannot } from "../../support/driver_errors.ts";
import { CudaError } from "../../support/errors.ts";
import { whatIs } from "../../support/validation.ts";
import type { CudaDevice } from "../cuda_device.ts";
import { CudaStream } from "./cuda_stream.ts";

/** The library reads the memory behind a handle. None is at smaller addresses: their use would crash the process. */
const firstHandle = 4096n;

/**
 * Wraps a stream of a device by its handle. Returns the device's default stream if it is that one's handle.
 *
 * @param onWrap called with the new stream, and returns what to call when it is disposed
 */
export function wrapStream(
  session: Session,
  device: CudaDevice,
  handle: bigint,
  onWrap: (stream: CudaStream) => () => void,
): CudaStream {
  checkHandle(handle);
  if (handle === defaultStream || handle === legacyStream) return device.defaultStream;
  const { ordinal } = device;
  const what = `wrap the stream 0x${handle.toString(16)} on device ${ordinal}`;
  let owner: number | undefined;
  let flags: number;
  try {
    owner = session.driver.streamGetDevice(ordinal, handle);
    flags = owner === ordinal ? session.driver.streamGetFlags(ordinal, handle) : 0;
  } catch (error) {
    const isUnknown = error instanceof CudaError && error.code === "cudaErrorInvalidResourceHandle";
    throw cannot(what, error, isUnknown ? "it was destroyed, or is no stream's handle" : undefined);
  }
  if (owner !== ordinal) {
    throw new RangeError(
      owner === undefined
        ? `Cannot ${what}: it belongs to another device, or to a context other than the device's primary context, which ` +
          "this library uses; create it with the CUDA runtime, or in the primary context"
        : `Cannot ${what}: it is a stream of device ${owner}; call wrapStream of that device`,
    );
  }
  const stream: CudaStream = new CudaStream(session, {
    device,
    handle,
    isNonBlocking: (flags & streamFlags.nonBlocking) !== 0,
    isForeign: true,
    onDispose: () => onDispose(),
  });
  const onDispose = onWrap(stream);
  return stream;
}

function checkHandle(handle: bigint): void {
  if (typeof handle !== "bigint") {
    const advice = (handle as unknown) instanceof CudaStream
      ? "it needs no wrapping"
      : "give its handle, a cudaStream_t, as a bigint";
    throw new TypeError(`Cannot wrap ${whatIs(handle)} as a stream: ${advice}`);
  }
  if (handle === perThreadStream) {
    throw new RangeError(
      "Cannot wrap the stream 2: it is cudaStreamPerThread, the default stream of whichever thread makes a call; wrap a " +
        "stream that was created, or use CudaDevice.defaultStream",
    );
  }
  const isPossible = handle === defaultStream || handle === legacyStream ||
    handle >= firstHandle && BigInt.asUintN(64, handle) === handle;
  if (!isPossible) throw new RangeError(`Cannot wrap the stream ${handle}: no stream has this handle`);
}
