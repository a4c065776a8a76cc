/**
 * Imports the pool and the buffer of a `pool_exporter`, and writes disjoint regions of the buffer from several devices
 * at once, as RMM's `pool_importer` does. Either end can be RMM's own program.
 *
 *     deno run --allow-ffi examples/pool_importer.ts <target_gpu> <writer_gpu_0> [writer_gpu_1 ...] [socket_path]
 *
 * @module
 */
import { type CudaDevice, type DeviceBuffer, open, UnixSocket } from "../mod.ts";
import { ptx } from "../kernels/fill.ts";
import { parseCount, readArguments, runProgram, say, UsageError } from "./command_line.ts";
import { leaveWithoutPeer } from "./leave_without_peer.ts";
import { Progress } from "./progress.ts";
import { formatPattern, type Region, regionsOf } from "./regions.ts";
import { defaultSocketPath, receiveOffer, sendDone, withDeadline } from "./rmm_wire.ts";

const name = "importer";
const usage = "pool_importer <target_gpu> <writer_gpu_0> [writer_gpu_1 ...] [socket_path]";
const about = `
Imports the pool and the buffer of a pool_exporter, and writes the buffer from several devices at once.
`;
const handshakeSeconds = 10;
const pieceByteLength = 64 * 2 ** 20;
const progressFromByteLength = 256 * 2 ** 20;
const threadsPerBlock = 256;

async function main(signal: AbortSignal): Promise<void> {
  const { positional: [target, ...rest] } = readArguments([]);
  const firstPath = rest.findIndex((argument) => !/^\d+$/.test(argument));
  const writerArguments = firstPath === -1 ? rest : rest.slice(0, firstPath);
  const [socketPath = defaultSocketPath, ...surplus] = rest.slice(writerArguments.length);
  if (target === undefined || surplus.length > 0) {
    throw new UsageError("A target, writers and at most one path are needed");
  }
  if (writerArguments.length === 0) throw new UsageError("At least one writer GPU must be specified");
  const targetGpu = parseCount(target, { what: "a device's number", least: 0 });

  using cuda = open();
  const gpu = cuda.device(targetGpu);
  const writers = writerArguments.map((argument) => cuda.device(Number(argument)));
  say(name, `Target GPU: ${targetGpu}, Writer GPUs: ${writers.length}, Socket: ${socketPath}`);

  const { socket, offer } = await withDeadline(handshakeSeconds, async (signal) => {
    await using stack = new AsyncDisposableStack();
    const socket = stack.use(await UnixSocket.connect(socketPath, { signal }));
    say(name, `Connected to exporter (process ${socket.peer.pid})`);
    const offer = await receiveOffer(socket, signal);
    stack.move();
    return { socket, offer };
  }, { signal, waitingFor: "the exporter" });
  await using _socket = socket;
  using handle = offer.pool;
  say(name, `Received: target_gpu=${offer.targetGpu}, bytes=${offer.byteLength}, pool_fd=${handle.fd}`);
  if (offer.targetGpu !== targetGpu) {
    throw new Error(`Target GPU mismatch: the exporter's is ${offer.targetGpu}, ours is ${targetGpu}`);
  }

  {
    using pool = gpu.importPool(handle);
    say(name, "Imported pool handle");
    using buffer = pool.importPointer(offer.exportData, offer.byteLength);
    say(name, `Imported pointer: 0x${buffer.address.toString(16)}`);
    const peers = new Set(writers.filter((writer) => writer !== gpu && writer.canAccessPeer(gpu)));
    if (peers.size > 0) pool.setAccess([...peers], "read-write");

    using _watch = leaveWithoutPeer(socket, { name, signal });
    const regions = regionsOf(offer.byteLength, writers.length);
    const progress = offer.byteLength > progressFromByteLength ? new Progress(name, offer.byteLength) : undefined;
    const start = performance.now();
    const written = await Promise.allSettled(
      regions.map((region) => writeRegion(writers[region.writer]!, buffer, { region, progress, signal })),
    );
    const seconds = (performance.now() - start) / 1000;
    for (const [writer, result] of written.entries()) {
      if (result.status === "fulfilled") say(`writer ${writer}`, result.value);
    }
    const failed = written.find((result) => result.status === "rejected");
    if (failed !== undefined) {
      // The other writers' queued work still writes to the buffer.
      for (const device of new Set(writers)) device.synchronize();
      throw failed.reason;
    }
    say(name, `All ${writers.length} writers completed: ${offer.byteLength} bytes in ${formatTime(seconds)}`);
  }
  // The mapping must be gone before the exporter frees the memory.
  gpu.synchronize();
  await sendDone(socket, signal);
}

/**
 * Fills a local buffer with a kernel on the writer's device and copies it to the writer's region of the shared buffer.
 *
 * @returns a report to print
 */
async function writeRegion(
  device: CudaDevice,
  shared: DeviceBuffer,
  { region, progress, signal }: { region: Region; progress: Progress | undefined; signal: AbortSignal },
): Promise<string> {
  const { writer, byteOffset, byteLength, pattern } = region;
  if (byteLength === 0) return "Nothing to write: there are more writers than bytes";
  if (device !== shared.device && !device.canAccessPeer(shared.device)) {
    say(
      `writer ${writer}`,
      `No peer access from GPU ${device.ordinal} to GPU ${shared.device.ordinal}: the copy is staged`,
    );
  }
  using stream = device.createStream({ nonBlocking: true });
  using pool = device.createPool();
  using local = pool.allocate(byteLength, stream);
  using module = device.loadModule(ptx);
  const fill = module.kernel("fill");
  const blocks = fill.maxActiveBlocksPerMultiprocessor(threadsPerBlock) * device.attribute("multiProcessorCount");
  const grid = Math.min(blocks, Math.ceil(byteLength / 4 / threadsPerBlock));
  fill.launch({ grid, block: threadsPerBlock, stream }, local, byteLength, pattern);

  using events = new DisposableStack();
  const start = events.use(device.createEvent({ timing: true }));
  stream.record(start);
  const pieces: { end: ReturnType<CudaDevice["createEvent"]>; length: number }[] = [];
  for (let begin = 0; begin < byteLength; begin += pieceByteLength) {
    const length = Math.min(pieceByteLength, byteLength - begin);
    local.subarray(begin, begin + length).copyTo(
      shared.subarray(byteOffset + begin, byteOffset + begin + length),
      stream,
    );
    const end = events.use(device.createEvent({ timing: true }));
    stream.record(end);
    pieces.push({ end, length });
  }
  for (const { end, length } of pieces) {
    await end.finished({ signal });
    progress?.add(length);
  }
  const seconds = pieces.at(-1)!.end.elapsedTime(start) / 1000;
  const rate = `${(byteLength / seconds / 1e9).toFixed(1)} GB/s`;
  const what = `pattern ${formatPattern(pattern)} to offset ${byteOffset} (${byteLength} bytes)`;
  return `Wrote ${what} from GPU ${device.ordinal} in ${formatTime(seconds)}, ${rate}`;
}

function formatTime(seconds: number): string {
  return `${(seconds * 1000).toFixed(3)} ms`;
}

if (await runProgram(name, main, { usage, about })) say(name, "Cleanup complete");
