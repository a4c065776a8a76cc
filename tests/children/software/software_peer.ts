// Calls the methods of its own software driver on request: deno run --allow-ffi
// tests/children/software/software_peer.ts SOCKET [FABRIC].
import process from "node:process";
import { UnixSocket } from "../../../src/sharing/transport/unix_socket.ts";
import { SoftwareDriver } from "../../../src/software/software_driver.ts";
import { CudaError } from "../../../src/support/errors.ts";
import { receiveMessage, sendMessage } from "../../support/software_messages.ts";
import { createFifo, hasLease, leaseFile, leaseMemory, replaceMemory } from "./swapped_files.ts";

const driver = new SoftwareDriver({ devices: 2, peers: true, fabric: process.argv[3] });

const others: Readonly<Record<string, (...args: never[]) => unknown>> = {
  createFifo,
  hasLease,
  leaseMemory,
  leaseFile,
  replaceMemory,
  /** Returns the bytes at an address. */
  read(address: bigint, byteLength: number): Uint8Array {
    const bytes = new Uint8Array(byteLength);
    driver.memcpyDtoHAsync(0, bytes, address, 0n);
    return bytes;
  },
  /** Returns the processor time of this process in milliseconds. */
  processorTime(): number {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  },
};

await using socket = await UnixSocket.connect(process.argv[2]!);
for (;;) {
  const message = await receiveMessage(socket) as { name: string; args: never[] } | undefined;
  if (message === undefined) break;
  const { name, args } = message;
  try {
    const method = driver[name as "close"] as ((...args: never[]) => unknown) | undefined;
    await sendMessage(socket, { result: method === undefined ? others[name]!(...args) : method.call(driver, ...args) });
  } catch (error) {
    await sendMessage(socket, { error: error instanceof CudaError ? error.code : String(error) });
  }
}
