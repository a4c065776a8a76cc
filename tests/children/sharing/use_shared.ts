/**
 * Uses memory that another process shares by legacy handles. Arguments: the driver's name, the memory's handle and the
 * event's handle in hexadecimal, and the memory's length. Waits on its stream for the event, reads the memory, adds 1
 * to each byte, and prints what it saw as a line of JSON.
 *
 * @module
 */
import process from "node:process";
import { Cuda } from "../../../src/objects/cuda.ts";
import { Session } from "../../../src/session.ts";
import { loadDriver } from "../../conformance/load_driver.ts";
import { indexOfOther } from "../../support/bytes.ts";

const [driverName, memoryDigits, eventDigits, byteLength] = process.argv.slice(2);
const openDriver = await loadDriver(driverName!);
{
  using cuda = new Cuda(new Session(openDriver()));
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  const handle = Uint8Array.fromHex(memoryDigits!);
  using event = gpu.openEvent(Uint8Array.fromHex(eventDigits!));
  using memory = gpu.openMemory(handle, Number(byteLength));
  using again = gpu.openMemory(handle, 1);
  memory.stream = stream;
  stream.wait(event);
  const bytes = await memory.read(Uint8Array);
  memory.copyFrom(bytes.map((byte) => byte + 1));
  const report = {
    first: bytes[0],
    isUniform: indexOfOther(bytes, bytes[0]!) === -1,
    isMappedOnce: again.address === memory.address,
    tooLong: errorOf(() => gpu.openMemory(handle, 2 ** 40)),
    garbageMemory: errorOf(() => gpu.openMemory(new Uint8Array(64), 1)),
    garbageEvent: errorOf(() => gpu.openEvent(new Uint8Array(64))),
    exported: errorOf(() => event.exportHandle()),
  };
  again.free();
  // A mapping that was opened twice exists until both are freed.
  await stream.finished();
  console.log(JSON.stringify({ ...report, still: (await memory.read(Uint8Array))[0] }));
}

function errorOf(attempt: () => unknown): string {
  try {
    attempt();
    return "none";
  } catch (error) {
    return `${(error as { code?: string }).code}: ${(error as Error).message}`;
  }
}
