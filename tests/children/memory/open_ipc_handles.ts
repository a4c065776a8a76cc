/**
 * Opens an event and memory of another process with CUDA's functions, reads the memory after the event, and prints its
 * first 4 bytes and the functions that it called. Arguments: the event's handle and the memory's handle, in
 * hexadecimal.
 *
 * @module
 */
import process from "node:process";
import { addressOf } from "../../../ffi/native/host.ts";
import { openRawCuda } from "../../ffi/sample_symbols.ts";

const cuda = openRawCuda();
const out = new BigUint64Array(1);
const outBytes = new Uint8Array(out.buffer);
const call = (name: string, ...args: (Uint8Array | bigint | number)[]) => {
  const result = cuda.call(name, ...args);
  if (result !== 0) throw new Error(`${name} returned ${result}`);
  return out[0]!;
};

const [eventHandle, memoryHandle] = process.argv.slice(2).map((digits) => Uint8Array.fromHex(digits));
call("cudaSetDevice", 0);
const stream = call("cudaStreamCreateWithFlags", outBytes, 1);
const event = call("cudaIpcOpenEventHandle", outBytes, eventHandle!);
const memory = call("cudaIpcOpenMemHandle", outBytes, memoryHandle!, 1);
call("cudaStreamWaitEvent", stream, event, 0);
const bytes = new Uint8Array(new ArrayBuffer(4));
call("cudaMemcpyAsync", addressOf(bytes), memory, 4n, 2, stream);
call("cudaStreamSynchronize", stream);
call("cudaIpcCloseMemHandle", memory);
call("cudaEventDestroy", event);
call("cudaStreamDestroy", stream);
console.log(JSON.stringify({ bytes: [...bytes], called: [...cuda.called] }));
