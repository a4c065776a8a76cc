/**
 * Shares a buffer before its contents are ready: the consumer receives it while the producer's work is still queued.
 * The consumer's stream, not its host, waits for an event that both processes have opened.
 *
 *     deno run --allow-ffi --allow-run examples/ready_event.ts
 *
 * A single message carries the pointer's export data, the event's handle, and the pool's descriptor.
 *
 * @module
 */
import process from "node:process";
import { open, UnixListener, UnixSocket } from "../mod.ts";
import { ptx as fillPtx } from "../kernels/fill.ts";
import { ptx as saxpyPtx } from "../kernels/saxpy.ts";
import { startChild } from "./child_process.ts";
import { leaveWithoutPeer } from "./leave_without_peer.ts";
import { readArguments, refuseSurplus, runProgram, say } from "./command_line.ts";

const usage = "ready_event";
const about = `
Shares a buffer before its contents are ready: the consumer's stream waits for an event of the producer.
`;
const length = 2 ** 20;
const byteLength = length * Float32Array.BYTES_PER_ELEMENT;
/** The bits of the float 2. */
const two = 0x40000000;
const geometry = { grid: 256, block: 256 };

const isConsumer = process.argv[2] === "--consume";
await runProgram(isConsumer ? "consumer" : "producer", main, { usage, about });

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["consume"]);
  refuseSurplus(positional);
  await (named.consume === undefined ? produce(signal) : consume(named.consume, signal));
}

async function produce(signal: AbortSignal): Promise<void> {
  const path = `/tmp/poolpass-ready-${process.pid}.sock`;
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using handle = pool.exportHandle();
  await using listener = UnixListener.listen(path);
  const consumer = startChild(new URL(import.meta.url), { args: ["--consume", path] });
  const lost = new AbortController();
  const end = (how: unknown) => lost.abort(new Error(`The consumer ended with ${how}`));
  consumer.exited.then((code) => code === 0 || end(code), end);
  const whileAlive = AbortSignal.any([signal, lost.signal]);
  await using socket = await listener.accept({ signal: whileAlive });

  using buffer = pool.allocate(byteLength, stream);
  using module = gpu.loadModule(fillPtx);
  module.kernel("fill").launch({ ...geometry, stream }, buffer, byteLength, two);
  using ready = gpu.createEvent({ interprocess: true });
  stream.record(ready);
  const message = new Uint8Array(128);
  message.set(buffer.exportPointer(), 0);
  message.set(ready.exportHandle(), 64);
  await socket.send(message, { handles: [handle], signal: whileAlive });
  say("producer", "Shared the buffer without waiting for it");

  // The consumer frees its mapping first and reports that; then this process frees the buffer.
  await socket.receive(1, { signal: whileAlive });
  if (await consumer.exited !== 0) throw new Error("The consumer failed");
  say("producer", "The consumer is done");
}

async function consume(path: string, signal: AbortSignal): Promise<void> {
  await using socket = await UnixSocket.connect(path, { signal });
  const { bytes, handles: [handle] } = await socket.receive(128, { handles: 1, signal });
  using _handle = handle!;
  using _watch = leaveWithoutPeer(socket, { name: "consumer", signal });
  using cuda = open();
  const gpu = cuda.device(0);
  using stream = gpu.createStream();
  {
    using pool = gpu.importPool(handle!);
    using ready = gpu.openEvent(bytes.subarray(64));
    using buffer = pool.importPointer(bytes.subarray(0, 64), byteLength);
    buffer.stream = stream;
    using results = gpu.createPool();
    using result = results.allocateArray(Float32Array, length, stream);
    using module = gpu.loadModule(saxpyPtx);

    stream.wait(ready);
    buffer.copyTo(result, stream);
    module.kernel("saxpy").launch({ ...geometry, stream }, length, 3, buffer, result);
    const values = await result.toTypedArray({ signal });
    const wrong = values.findIndex((value) => value !== 8);
    if (wrong >= 0) throw new Error(`Element ${wrong} is ${values[wrong]}, and should be 3 * 2 + 2`);
    say("consumer", `All ${length} elements are right`);
  }
  await stream.finished({ signal });
  await socket.send(Uint8Array.of(1), { signal });
}
