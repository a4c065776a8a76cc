/**
 * A pool that machines of one NVLink domain share, by the 64 bytes of a fabric handle. These go over TCP, with the data
 * of a pointer. A fabric handle keeps nothing: the exporter holds the memory as long as the importer renews its lease.
 *
 * Without arguments both programs run here: on GPUs if there is an IMEX channel, else on the software device, for which
 * a temporary folder stands in for the fabric:
 *
 *     deno run --allow-ffi --allow-net --allow-run --allow-read=/tmp --allow-write=/tmp \
 *       examples/fabric_pool.ts [--bytes 64MiB]
 *
 * On two machines, with a secret that both know:
 *
 *     deno run --allow-ffi --allow-net examples/fabric_pool.ts --listen 0.0.0.0:7000 --token SECRET
 *     deno run --allow-ffi --allow-net examples/fabric_pool.ts --connect exporter:7000 --token SECRET
 *
 * The token keeps others from being served. It does not hide the handle from those who read the network: where that is
 * not trusted, connect through a tunnel.
 *
 * @module
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import process from "node:process";
import { type Cuda, CudaError, open, ShareableHandle } from "../mod.ts";
import { ptx } from "../kernels/fill.ts";
import { type ChildProcess, startChild } from "./child_process.ts";
import {
  messageOf,
  parseBytes,
  parseCount,
  readArguments,
  refuseSurplus,
  runProgram,
  say,
  UsageError,
} from "./command_line.ts";
import { findWrongByte } from "./regions.ts";
import { parseAddress, TcpConnection, TcpListener } from "./tcp_connection.ts";

const usage = "fabric_pool [--listen <host:port> | --connect <host:port>] [--token <secret>] [--device <ordinal>] " +
  "[--bytes <size>]";
const about = `
Shares a pool by its fabric handle, which goes over TCP to a process of the same NVLink domain. Without --listen and
--connect, both processes run on this machine.

--listen <host:port>   exports a pool to the first importer that knows the token
--connect <host:port>  imports the pool of an exporter, and checks its bytes
--token <secret>       what both must know, of at least 16 characters
--device <ordinal>     the device to use; 0 by default
--bytes <size>         how much to share; 64MiB by default
`;
const isGiven = (option: string) => process.argv.some((argument) => argument.split("=")[0] === option);
const name = isGiven("--listen") ? "exporter" : isGiven("--connect") ? "importer" : "fabric_pool";

/*
 * The messages, all of fixed size. The exporter greets with a mark and a random challenge. The importer answers with the
 * challenge's HMAC under the token, so that the token does not cross the network. The exporter offers the handle of the
 * pool, the data of the pointer, the size (u64, little-endian) and the byte that the memory is full of. The importer
 * then sends `held` from time to time, and at the end `released`.
 */
const mark = new TextEncoder().encode("POOLPASS-FABRIC1");
const challengeByteLength = 32;
const answerByteLength = 32;
const handleByteLength = 64;
const offerByteLength = handleByteLength + 64 + 8 + 1;
const held = "H".charCodeAt(0);
const released = "R".charCodeAt(0);

const answerSeconds = 10;
/** The exporter gives up the memory if the importer has not renewed its lease for so long. */
const leaseSeconds = 10;
const renewalSeconds = 2;
const leastTokenLength = 16;
const threadsPerBlock = 256;

interface Options {
  readonly device: number;
  readonly token: string;
}

async function main(signal: AbortSignal): Promise<void> {
  const { positional, named } = readArguments(["listen", "connect", "token", "device", "bytes"]);
  refuseSurplus(positional);
  const byteLength = parseBytes(named.bytes ?? "64MiB");
  const device = parseCount(named.device ?? "0", { what: "a device's number", least: 0 });
  if (named.listen !== undefined && named.connect !== undefined) {
    throw new UsageError("Either --listen or --connect can be given");
  }
  if (named.listen === undefined && named.connect === undefined) return await runBoth({ byteLength, device }, signal);
  const { token = "" } = named;
  if (token.length < leastTokenLength) {
    throw new UsageError(`--token is needed, with at least ${leastTokenLength} characters that nobody can guess`);
  }
  if (named.listen !== undefined) return await exportPool(named.listen, { device, token, byteLength }, signal);
  await importPool(named.connect!, { device, token }, signal);
}

/** Creates the pool, and holds it until the importer has released it or is gone. */
async function exportPool(
  listen: string,
  { device, token, byteLength }: Options & { byteLength: number },
  signal: AbortSignal,
): Promise<void> {
  const address = parseAddress(listen);
  using cuda = open();
  const gpu = cuda.device(device);
  using stream = gpu.createStream();
  using pool = gpu.createPool({ handleType: "fabric" });
  using handle = pool.exportHandle();
  using buffer = pool.allocate(byteLength, stream);
  using module = gpu.loadModule(ptx);
  const [pattern] = randomBytes(1) as unknown as [number];
  const fill = module.kernel("fill");
  const grid = Math.min(1024, Math.ceil(byteLength / 4 / threadsPerBlock));
  fill.launch({ grid, block: threadsPerBlock, stream }, buffer, byteLength, pattern * 0x01010101);
  await stream.finished({ signal });

  const offer = new Uint8Array(offerByteLength);
  offer.set(handle.bytes);
  offer.set(buffer.exportPointer(), handleByteLength);
  new DataView(offer.buffer).setBigUint64(offerByteLength - 9, BigInt(byteLength), true);
  offer[offerByteLength - 1] = pattern;

  using listener = await TcpListener.listen(address, signal);
  say(name, `Listening at ${listener.address}`);
  for await (const connection of listener) {
    try {
      await checkImporter(connection, token, signal);
    } catch (error) {
      signal.throwIfAborted();
      say(name, `Refused a connection: ${messageOf(error)}`);
      continue;
    }
    connection.send(offer);
    say(name, `Sent the fabric handle of a pool with ${byteLength} bytes`);
    await holdLease(connection, signal);
    say(name, "The importer has released the memory");
    return;
  }
}

async function checkImporter(connection: TcpConnection, token: string, signal: AbortSignal): Promise<void> {
  const challenge = randomBytes(challengeByteLength);
  connection.send(mark);
  connection.send(challenge);
  const patience = { seconds: answerSeconds, waitingFor: "the answer to the challenge", signal };
  const answer = await connection.receive(answerByteLength, patience);
  if (!timingSafeEqual(answer, answerTo(challenge, token))) throw new Error("It does not know the token");
}

function answerTo(challenge: Uint8Array, token: string): Uint8Array {
  return createHmac("sha256", token).update(challenge).digest();
}

/** Returns when the importer has released the memory, and throws when it is gone or silent. */
async function holdLease(connection: TcpConnection, signal: AbortSignal): Promise<void> {
  const patience = { seconds: leaseSeconds, waitingFor: "the importer to renew its lease", signal };
  for (;;) {
    const [message] = await connection.receive(1, patience);
    if (message === released) return;
    if (message !== held) throw new Error(`Cannot continue: the importer sent the byte ${message}`);
  }
}

/** Imports the pool, checks every byte of the pointer's memory, and releases it. */
async function importPool(address: string, { device, token }: Options, signal: AbortSignal): Promise<void> {
  using connection = await TcpConnection.connect(parseAddress(address), signal);
  const receive = (byteLength: number, waitingFor: string) =>
    connection.receive(byteLength, { seconds: answerSeconds, waitingFor, signal });
  const greeting = await receive(mark.length, "the exporter's greeting");
  if (!timingSafeEqual(greeting, mark)) {
    throw new Error(`Cannot import from ${address}: another program listens there`);
  }
  connection.send(answerTo(await receive(challengeByteLength, "the exporter's challenge"), token));
  const offer = await receive(offerByteLength, "the offer, which comes only if the exporter has the same token");
  const size = new DataView(offer.buffer, offer.byteOffset).getBigUint64(offerByteLength - 9, true);
  const byteLength = Number(size);
  if (!Number.isSafeInteger(byteLength) || byteLength < 1) {
    throw new Error(`Cannot take the offer of ${size} bytes: the number is invalid`);
  }

  // Without an exporter there is no memory, and whoever goes on to use it may lose its device.
  const gone = new AbortController();
  connection.onEnd((reason) => gone.abort(reason));
  const whileHeld = AbortSignal.any([signal, gone.signal]);
  const renewal = setInterval(() => connection.send(Uint8Array.of(held)), renewalSeconds * 1000);
  try {
    using cuda = open();
    const gpu = cuda.device(device);
    {
      using handle = ShareableHandle.fromBytes(offer.slice(0, handleByteLength));
      using pool = gpu.importPool(handle);
      using buffer = pool.importPointer(offer.slice(handleByteLength, offerByteLength - 9), byteLength);
      const region = { writer: 0, byteOffset: 0, byteLength, pattern: offer[offerByteLength - 1]! };
      const wrong = await findWrongByte(buffer, region, whileHeld);
      if (wrong !== undefined) throw new Error(`The byte at ${wrong} is wrong`);
      console.log(`All ${byteLength} bytes are right`);
    }
    // The mapping must be gone before the exporter frees the memory.
    gpu.synchronize();
  } finally {
    clearInterval(renewal);
  }
  connection.send(Uint8Array.of(released));
}

/** Runs an exporter and an importer on this machine. */
async function runBoth(
  { byteLength, device }: { byteLength: number; device: number },
  signal: AbortSignal,
): Promise<void> {
  let env: Record<string, string> = {};
  {
    using cuda = open();
    if (cuda.driver === "cuda") {
      const refusal = refusalOf(cuda, device);
      if (refusal !== undefined) {
        console.log(`${refusal}\nSkipped: this machine has no fabric`);
        return;
      }
    } else env = { POOLPASS_DRIVER: "software" };
  }
  using stack = new DisposableStack();
  if (env.POOLPASS_DRIVER === "software") {
    const folder = mkdtempSync("/tmp/poolpass-fabric-");
    // An exporter that was killed has left its file.
    stack.defer(() => rmSync(folder, { recursive: true }));
    env.POOLPASS_SOFTWARE_FABRIC = folder;
  }
  const common = ["--token", randomBytes(16).toString("hex"), "--device", String(device)];
  const start = (args: readonly string[], readErrors: boolean) => {
    const child = startChild(new URL(import.meta.url), {
      args: [...args, ...common],
      readErrors,
      env,
      permissions: ["--allow-net=127.0.0.1"],
    });
    const kill = () => child.kill("SIGTERM");
    signal.addEventListener("abort", kill);
    return child;
  };
  const exporter = start(["--listen", "127.0.0.1:0", "--bytes", String(byteLength)], true);
  const importer = await importerOf(exporter, (address) => start(["--connect", address], false));
  // The exporter would wait for another importer.
  void importer?.exited.then((code) => code !== 0 && exporter.kill("SIGTERM"));
  const codes = await Promise.all([exporter.exited, importer?.exited ?? 1]);
  signal.throwIfAborted();
  if (codes.some((code) => code !== 0)) throw new Error("The exporter or the importer has failed");
}

/** Passes on what the exporter prints, and starts the importer when it listens. Returns undefined if it never does. */
async function importerOf(
  exporter: ChildProcess,
  start: (address: string) => ChildProcess,
): Promise<ChildProcess | undefined> {
  const { promise, resolve } = Promise.withResolvers<ChildProcess | undefined>();
  void (async () => {
    for await (const line of exporter.errorLines) {
      process.stderr.write(`${line}\n`);
      const [, address] = /^\[exporter\] Listening at (\S+)$/.exec(line) ?? [];
      if (address !== undefined) resolve(start(address));
    }
    resolve(undefined);
  })();
  return await promise;
}

/** Why a device cannot share memory by a fabric handle, or undefined if it can. */
function refusalOf(cuda: Cuda, device: number): string | undefined {
  try {
    using pool = cuda.device(device).createPool({ handleType: "fabric" });
    using _handle = pool.exportHandle();
    return undefined;
  } catch (error) {
    if (error instanceof CudaError) return error.message;
    throw error;
  }
}

await runProgram(name, main, { usage, about });
