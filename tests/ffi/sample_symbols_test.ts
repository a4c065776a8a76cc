import { assert, assertEquals, assertThrows } from "@std/assert";
import { CudaDriver } from "../../ffi/cuda_driver.ts";
import { addressOf } from "../../ffi/native/host.ts";
import { closeDescriptor } from "../../ffi/native/shim/descriptors.ts";
import { memAccessDescLayout, memPoolPropsLayout, writeStruct } from "../../ffi/structs.ts";
import { ptx } from "../../kernels/fill.ts";
import { CudaError } from "../../src/support/errors.ts";
import { startScript } from "../support/child_process.ts";
import {
  boundSymbols,
  openRawCuda,
  rawCudaRefusal,
  simpleIpcSymbols,
  streamOrderedAllocationIpcSymbols,
} from "./sample_symbols.ts";
import { test } from "../support/test.ts";

const symbols = [...new Set([...streamOrderedAllocationIpcSymbols, ...simpleIpcSymbols])].sort();
const deviceLocation = 1;
const memoryByteLength = 4096n;
const encoder = new TextEncoder();

test("every function of the two samples is bound", () => {
  assertEquals(symbols.filter((name) => !boundSymbols.includes(name)), []);
});

test("every function of the two samples can be called", { skip: rawCudaRefusal() ?? false }, async () => {
  const cuda = openRawCuda();
  const out = new BigUint64Array(2);
  const outBytes = new Uint8Array(out.buffer);
  const call = (name: string, ...args: (Uint8Array | bigint | number)[]): bigint => {
    assertEquals(cuda.call(name, ...args), 0, name);
    return out[0]!;
  };
  const intOut = () => new Int32Array(out.buffer)[0]!;

  call("cuDeviceGet", outBytes, 0);
  assertEquals(intOut(), 0);
  call("cuDeviceGetAttribute", outBytes, 115, 0);
  assertEquals(intOut(), 1);
  call("cudaGetDeviceCount", outBytes);
  assert(intOut() >= 1);
  call("cudaSetDevice", 0);
  call("cudaDeviceGetAttribute", outBytes, 115, 0);
  assertEquals(intOut(), 1);
  const properties = new Uint8Array(new ArrayBuffer(8192));
  call("cudaGetDeviceProperties", properties, 0);
  const name = new Uint8Array(256);
  call("cuDeviceGetName", name, 256, 0);
  assertEquals(properties.subarray(0, 256), name);

  call("cudaDeviceCanAccessPeer", outBytes, 0, 0);
  assertEquals(intOut(), 0);
  // A device is not a peer of itself. The runtime keeps the error until it is read.
  const refused = cuda.call("cudaDeviceEnablePeerAccess", 0, 0);
  assert(refused !== 0);
  assertEquals(cuda.call("cudaGetLastError"), refused);
  call("cudaGetLastError");

  const stream = call("cudaStreamCreateWithFlags", outBytes, 1);
  const otherStream = call("cudaStreamCreateWithFlags", outBytes, 1);
  const properties88 = new Uint8Array(memPoolPropsLayout.byteLength);
  writeStruct(memPoolPropsLayout, new DataView(properties88.buffer), {
    values: { "allocType": 1, "handleTypes": 1, "location.type": deviceLocation, "location.id": 0 },
  });
  const pool = call("cudaMemPoolCreate", outBytes, properties88);
  const access = new Uint8Array(memAccessDescLayout.byteLength);
  writeStruct(memAccessDescLayout, new DataView(access.buffer), {
    values: { "location.type": deviceLocation, "location.id": 0, "flags": 3 },
  });
  call("cudaMemPoolSetAccess", pool, access, 1n);
  call("cudaMemPoolGetAccess", outBytes, pool, access.subarray(0, 8));
  assertEquals(intOut(), 3);
  call("cudaMemPoolExportToShareableHandle", outBytes, pool, 1, 0);
  const descriptor = intOut();
  const imported = call("cudaMemPoolImportFromShareableHandle", outBytes, BigInt(descriptor), 1, 0);
  closeDescriptor(descriptor);
  const pooled = call("cudaMallocFromPoolAsync", outBytes, memoryByteLength, pool, stream);
  const plain = call("cudaMallocAsync", outBytes, memoryByteLength, stream);
  const exportData = new Uint8Array(64);
  call("cudaMemPoolExportPointer", exportData, pooled);
  const mapped = call("cudaMemPoolImportPointer", outBytes, imported, exportData);
  call("cudaStreamSynchronize", stream);

  const memory = call("cudaMalloc", outBytes, memoryByteLength);
  const bytes = new Uint8Array(Uint8Array.of(1, 2, 3, 4).buffer);
  call("cudaMemcpyAsync", memory, addressOf(bytes), 4n, 1, stream);
  call("cudaMemcpyAsync", mapped, addressOf(bytes), 4n, 1, stream);
  const timed = call("cudaEventCreate", outBytes);
  call("cudaEventRecord", timed, stream);
  call("cudaStreamWaitEvent", otherStream, timed, 0);
  call("cudaEventSynchronize", timed);
  const shared = call("cudaEventCreateWithFlags", outBytes, 6);
  call("cudaEventRecord", shared, otherStream);
  const eventHandle = new Uint8Array(64);
  call("cudaIpcGetEventHandle", eventHandle, shared);
  const memoryHandle = new Uint8Array(64);
  call("cudaIpcGetMemHandle", memoryHandle, memory);
  await using child = startScript("children/memory/open_ipc_handles.ts", [eventHandle.toHex(), memoryHandle.toHex()]);
  const answer = JSON.parse(await child.nextLine() ?? await child.errors());
  assertEquals(await child.ended, 0);
  assertEquals(answer.bytes, [1, 2, 3, 4]);

  const library = call("cudaLibraryLoadData", outBytes, encoder.encode(`${ptx}\0`), 0n, 0n, 0, 0n, 0n, 0);
  const kernel = call("cudaLibraryGetKernel", outBytes, library, encoder.encode("fill\0"));
  call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", outBytes, kernel, 256, 0n);
  assert(intOut() >= 1);
  call("cudaLibraryUnload", library);

  for (const address of [mapped, pooled, plain]) call("cudaFreeAsync", address, stream);
  call("cudaStreamSynchronize", stream);
  call("cudaMemPoolDestroy", imported);
  call("cudaMemPoolDestroy", pool);
  call("cudaFree", memory);
  for (const event of [timed, shared]) call("cudaEventDestroy", event);
  for (const each of [stream, otherStream]) call("cudaStreamDestroy", each);

  const called = new Set([...cuda.called, ...answer.called]);
  assertEquals(symbols.filter((name) => !called.has(name)), []);
});

test("a failed call leaves no error in cudaGetLastError", { skip: rawCudaRefusal() ?? false }, () => {
  const cuda = openRawCuda();
  const driver = new CudaDriver();
  const error = assertThrows(() => driver.malloc(0, 2 ** 50), CudaError);
  assertEquals(error.code, "cudaErrorMemoryAllocation");
  assertEquals(cuda.call("cudaGetLastError"), 0);
  driver.close();
});
