/**
 * Tests of sharing between processes: an exporter or importer in the test, and other processes that execute its calls.
 *
 * @module
 */
import { assertEquals, assertInstanceOf, assertRejects, assertStringIncludes } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { CudaStream } from "../../src/objects/streams/cuda_stream.ts";
import type { Driver } from "../../src/driver.ts";
import { SharingError, type SharingErrorCode } from "../../src/support/errors.ts";
import type { MemoryPool } from "../../src/memory/pools/memory_pool.ts";
import { Session } from "../../src/session.ts";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import { type StartOptions, startScript } from "../support/child_process.ts";
import type { PeerCalls, PeerFailure } from "../children/sharing/sharing_peer.ts";
import { driversUnderTest, type DriverUnderTest, tooFewDevices } from "../support/drivers.ts";
import { leakTest } from "../support/resources.ts";
import { Gate } from "../support/gate.ts";
import type { SkipReason } from "../support/test.ts";
import { receiveMessage, sendMessage } from "../support/software_messages.ts";

/** Milliseconds in which a fault must be noticed. */
const promptly = 1000;
/** Milliseconds in which unblocked work must be done, even on a busy machine. */
const answerTimeout = 20_000;

/** Another process, whose functions can be called. */
export interface CalledPeer<Calls extends Record<keyof Calls, (...args: never[]) => unknown>> extends AsyncDisposable {
  readonly pid: number;
  /** Calls one of its functions. An error there is thrown here as a `PeerError`. */
  call<Name extends keyof Calls>(
    name: Name,
    ...args: Parameters<Calls[Name]>
  ): Promise<Awaited<ReturnType<Calls[Name]>>>;
  /** Sends a signal. If the signal kills the process, resolves when the process has ended. */
  kill(signal?: "SIGKILL" | "SIGSTOP" | "SIGCONT"): Promise<void>;
}

/** A process that runs `children/sharing/sharing_peer.ts`. */
export type SharingPeer = CalledPeer<PeerCalls>;

/** An error that was thrown in another process. */
export class PeerError extends Error {
  readonly code: string | undefined;
  /** The name of the error's class there. */
  readonly thrown: string;

  constructor({ name, code, message }: PeerFailure) {
    super(message);
    this.code = code;
    this.thrown = name;
  }
}

/** The objects that a test starts with. */
export interface Fixture {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly driver: Driver;
  /** Opens another driver of the same kind. */
  openDriver(): Driver;
  /** A non-blocking stream. */
  readonly stream: CudaStream;
  /** A shareable pool of the device. */
  readonly pool: MemoryPool;
  readonly gate: Gate;
  /** A path for an exporter's socket. */
  readonly path: string;
  /** Starts another process, which ends with the test. */
  start(options?: PeerOptions): Promise<SharingPeer>;
}

/** The options of `Fixture.start`. */
export interface PeerOptions extends StartOptions {
  /** Whether it opens the devices that its environment selects. */
  readonly byEnvironment?: boolean;
}

/** Values that cannot be used as a stream, with the expected errors. The caller must dispose of `made`. */
export function unusableStreams(
  { gpu, openDriver }: Fixture,
  made: DisposableStack,
): readonly [wrong: CudaStream, type: new () => Error, message: string][] {
  const foreign = made.use(new Cuda(new Session(openDriver()))).device(0).createStream();
  const disposed = gpu.createStream();
  disposed[Symbol.dispose]();
  return [
    [5 as unknown as CudaStream, TypeError, "Cannot use 5 as a stream"],
    [made.use(foreign), TypeError, "Cannot use a stream of another Cuda object"],
    [disposed, ReferenceError, "it was disposed"],
  ];
}

/** The requirements of a test. */
export interface SharingTestOptions {
  /** Whether the test needs the software device. */
  readonly softwareOnly?: boolean;
  /** Number of devices, by default 1. */
  readonly devices?: number;
  /** Why it cannot run here. */
  readonly skip?: SkipReason;
  /** Whether the test is a variant of another one, which only the long run includes. */
  readonly long?: boolean;
}

/** Declares a test on each driver. Fails if it leaves descriptors, mappings, processes or memory of its pool behind. */
export function sharingTest(
  name: string,
  body: (fixture: Fixture) => Promise<void>,
  { softwareOnly = false, devices = 1, skip: reason, long = false }: SharingTestOptions = {},
): void {
  for (const driver of driversUnderTest) {
    if (softwareOnly && driver.name !== "software") continue;
    const skip = reason || driver.skip || shimRefusal() || tooFewDevices(driver, devices);
    leakTest(`${name} [${driver.name}]`, () => withFixture(driver, body), {
      skip,
      long,
      warmUp: () => warmUp(driver),
    });
  }
}

const warmedUp = new Map<string, Promise<void>>();

/** Creates what a first connection creates once and keeps, before anything is counted. */
function warmUp(driver: DriverUnderTest): Promise<void> {
  let promise = warmedUp.get(driver.name);
  if (promise === undefined) {
    promise = withFixture(driver, async ({ cuda, start, pool, stream, gate, path }) => {
      for (const device of cuda.devices) {
        using other = device.createStream();
        other.synchronize();
      }
      const peer = await start();
      await using exporter = Exporter.listen(path);
      using buffer = pool.allocate(64, stream);
      gate.hold(stream);
      buffer.fill(1);
      const offer = exporter.offer("buffer", buffer);
      await peer.call("connect", "one", path);
      gate.open();
      await peer.call("map", "one", "buffer");
      await peer.call("free", "buffer");
      await offer.released();
      await buffer.read(Uint8Array);
      await peer.call("close", "one");
    });
    warmedUp.set(driver.name, promise);
  }
  return promise;
}

async function withFixture(driverUnderTest: DriverUnderTest, body: (fixture: Fixture) => Promise<void>): Promise<void> {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    await using peers = new AsyncDisposableStack();
    const driver = driverUnderTest.open();
    using cuda = new Cuda(new Session(driver));
    const gpu = cuda.device(0);
    using gate = new Gate(cuda);
    using pool = gpu.createPool({ handleType: "posix-fd" });
    using stream = gpu.createStream({ nonBlocking: true });
    let started = 0;
    await body({
      cuda,
      gpu,
      driver,
      openDriver: () => driverUnderTest.open(),
      stream,
      pool,
      gate,
      path: `${folder}/exporter`,
      start: async (options) =>
        peers.use(await startPeer(driverUnderTest.name, `${folder}/peer${started++}`, options ?? {})),
    });
    await stream.finished();
    // The end of a killed process is noticed soon, not immediately, and its memory is held until then.
    await soon(() => pool.usage().used === 0, "memory of the pool is freed");
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function startPeer(
  driver: string,
  path: string,
  { byEnvironment, ...options }: PeerOptions,
): Promise<SharingPeer> {
  await using stack = new AsyncDisposableStack();
  const listener = stack.use(UnixListener.listen(path));
  const child = stack.use(
    startScript("children/sharing/sharing_peer.ts", [byEnvironment ? "open" : driver, path], options),
  );
  const socket = stack.use(await listener.accept({ signal: AbortSignal.timeout(answerTimeout) }));
  const pending = new Map<number, { resolve(result: unknown): void; reject(error: unknown): void }>();
  const listening = listen();
  const kept = stack.move();
  let last = 0;
  let sent = Promise.resolve();

  async function listen(): Promise<void> {
    for (;;) {
      const answer = await receiveMessage(socket) as
        | { number: number; result?: unknown; failure?: PeerFailure }
        | undefined;
      if (answer === undefined) break;
      const { resolve, reject } = pending.get(answer.number)!;
      pending.delete(answer.number);
      if (answer.failure === undefined) resolve(answer.result);
      else reject(new PeerError(answer.failure));
    }
    for (const { reject } of pending.values()) reject(new Error("The process has ended"));
  }

  return {
    pid: child.pid,
    call(name, ...args) {
      const number = ++last;
      sent = sent.then(() => sendMessage(socket, { number, name, args }));
      return new Promise<never>((resolve, reject) => pending.set(number, { resolve: resolve as () => void, reject }));
    },
    async kill(signal = "SIGKILL") {
      child.kill(signal);
      if (signal === "SIGKILL") await child.ended;
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await listening;
      await kept.disposeAsync();
    },
  };
}

/** Resolves when a condition holds; fails if that takes longer than a second. */
export async function soon(isSo: () => boolean, what: string): Promise<void> {
  const signal = AbortSignal.timeout(promptly);
  await waitUntil(isSo, { signal }).catch(() => {
    throw new Error(`Not within ${promptly} ms: ${what}`);
  });
}

/** Fails unless a promise rejects within a second with a SharingError, thrown here or in another process. */
export async function assertFailsSoon(promise: Promise<unknown>, code: SharingErrorCode, text = ""): Promise<void> {
  const error = await assertRejects(() => withinASecond(promise));
  if (!(error instanceof PeerError)) assertInstanceOf(error, SharingError);
  const { code: actual, message } = error as SharingError;
  assertEquals(actual, code, message);
  assertStringIncludes(message, text);
}

/** Resolves like the promise; fails if that takes longer than a second from now. */
export async function withinASecond<T>(promise: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`Nothing happened within ${promptly} ms`)), promptly);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Exports memory of a pool of its own, because the first export of a `Cuda` object makes further ones to learn of them. */
export function exportFirst(cuda: Cuda): void {
  const gpu = cuda.device(0);
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using _handle = pool.exportHandle();
  using buffer = pool.allocate(256);
  buffer.exportPointer();
}
