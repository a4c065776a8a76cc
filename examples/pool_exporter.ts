/**
 * Creates a memory pool that other processes can import, allocates a buffer from it, and offers both at a Unix socket,
 * as RMM's `pool_exporter` does. Either end can be RMM's own program.
 *
 *     deno run --allow-ffi examples/pool_exporter.ts <target_gpu> <bytes> [socket_path]
 *       --verify <n>         checks every byte that n writers wrote
 *       --timeout <seconds>  the time limit for a connected importer; 60 by default
 *
 * @module
 */
import process from "node:process";
import { type DeviceBuffer, open, UnixListener } from "../mod.ts";
import { parseBytes, parseCount, readArguments, runProgram, say, UsageError } from "./command_line.ts";
import { drawStrip, findWrongByte, formatPattern, regionsOf } from "./regions.ts";
import { defaultSocketPath, receiveDone, sendOffer, withDeadline } from "./rmm_wire.ts";

const name = "exporter";
const usage = "pool_exporter <target_gpu> <bytes> [socket_path] [--verify <writers>] [--timeout <seconds>]";
const about = `
Creates a memory pool that other processes can import, allocates a buffer from it, and offers both at a socket.

--verify <n>         checks every byte that n writers wrote
--timeout <seconds>  the time limit for a connected importer; 60 by default
`;

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["verify", "timeout"]);
  const [target, size, socketPath = defaultSocketPath, ...surplus] = positional;
  if (target === undefined || size === undefined || surplus.length > 0) {
    throw new UsageError("Two or three arguments are needed");
  }
  const targetGpu = parseCount(target, { what: "a device's number", least: 0 });
  const byteLength = parseBytes(size);
  const writers = named.verify === undefined
    ? undefined
    : parseCount(named.verify, { what: "the number of writers", least: 1 });
  const timeout = parseCount(named.timeout ?? "60", { what: "a time in seconds", least: 1 });

  using cuda = open();
  const gpu = cuda.device(targetGpu);
  const { total } = gpu.memoryInfo();
  if (byteLength > total) {
    throw new RangeError(`Cannot allocate ${byteLength} bytes: device ${targetGpu} has ${total} bytes of memory`);
  }
  await using listener = UnixListener.listen(socketPath);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ handleType: "posix-fd" });
  say(name, `Created IPC-enabled memory pool on GPU ${targetGpu} (${gpu.name})`);
  using buffer = pool.allocate(byteLength, stream);
  say(name, `Allocated ${byteLength} bytes at 0x${buffer.address.toString(16)}`);
  using handle = pool.exportHandle();
  const exportData = buffer.exportPointer();
  say(name, `Exported pool FD=${handle.fd} and pointer metadata`);
  await stream.finished({ signal });

  say(name, `Listening on ${socketPath}`);
  await using socket = await listener.accept({ signal });
  say(name, `Client connected (process ${socket.peer.pid})`);
  const waitingFor = "the importer";
  await withDeadline(timeout, async (signal) => {
    await sendOffer(socket, { targetGpu, byteLength, pool: handle, exportData }, signal);
    say(name, "Sent pool FD and export data to importer");
    await receiveDone(socket, signal);
  }, { signal, waitingFor });
  say(name, "Importer finished (signal=D)");
  if (writers !== undefined) await verify(buffer, writers, signal);
}

/** Checks each region and prints a line for it. */
async function verify(buffer: DeviceBuffer, writers: number, signal: AbortSignal): Promise<void> {
  const regions = regionsOf(buffer.byteLength, writers);
  let wrongRegions = 0;
  for (const region of regions) {
    const wrong = await findWrongByte(buffer, region, signal);
    if (wrong !== undefined) wrongRegions++;
    const verdict = wrong === undefined ? "verified" : `WRONG from byte ${wrong} on`;
    const { writer, byteOffset, byteLength, pattern } = region;
    console.log(
      `writer ${writer}: offset ${byteOffset}, ${byteLength} bytes, pattern ${formatPattern(pattern)}, ${verdict}`,
    );
  }
  if (process.stdout.isTTY) console.log(drawStrip(regions, buffer.byteLength));
  if (wrongRegions > 0) throw new Error(`${wrongRegions} of ${writers} regions do not hold what was written`);
}

if (await runProgram(name, main, { usage, about })) say(name, "Cleanup complete");
