/**
 * A thread of the test's process that imports memory which the process has exported, at the same time as other threads.
 * It receives the pool's descriptor, the export data and the length, and reports the process id and the distinct bytes
 * that it has read.
 *
 * @module
 */
import process from "node:process";
import { parentPort, workerData } from "node:worker_threads";
import { duplicateDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { Cuda } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { ShareableHandle } from "../../../src/memory/handles/shareable_handle.ts";
import { loadDriver } from "../../conformance/load_driver.ts";

const { driverName, fd, exportData, byteLength } = workerData as {
  driverName: string;
  fd: number;
  exportData: Uint8Array;
  byteLength: number;
};
const openDriver = await loadDriver(driverName);
const seen = new Set<number>();
{
  using cuda = new Cuda(new Session(openDriver()));
  using handle = ShareableHandle.fromFd(duplicateDescriptor(fd));
  for (let round = 0; round < 5; round++) {
    using imported = cuda.device(0).importPool(handle);
    using mapped = imported.importPointer(exportData, byteLength);
    for (const byte of await mapped.read(Uint8Array)) seen.add(byte);
  }
}
parentPort!.postMessage({ pid: process.pid, seen: [...seen] });
