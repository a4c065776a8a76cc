/**
 * Tests of sharing between processes: an exporter or an importer of the test's own, and other processes that do what they
 * are told.
 *
 * @module
 */
import { assertEquals, assertInstanceOf, assertRejects, assertStringIncludes } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { shimRefusal } from "../../ffi/shim/shim.ts";
import { Cuda } from "../../src/objects/cuda.ts";
import type { CudaDevice } from "../../src/objects/cuda_device.ts";
import type { CudaStream } from "../../src/objects/cuda_stream.ts";
import type { Driver } from "../../src/driver.ts";
import { SharingError, type SharingErrorCode } from "../../src/support/errors.ts";
import type { MemoryPool } from "../../src/memory/memory_pool.ts";
import { Session } from "../../src/session.ts";
import { Exporter } from "../../src/sharing/exporter/exporter.ts";
import { UnixListener } from "../../src/sharing/transport/unix_listener.ts";
import { waitUntil } from "../../src/support/waiting/waiting.ts";
import { type StartOptions, startScript } from "../support/child_process.ts";
import type { PeerCalls, PeerFailure } from "../children/sharing/sharing_peer.ts";
import { driversUnderTest, type DriverUnderTest, tooFewDevices } from "../support/drivers.ts";
import { leakTest } from "../support/resources.ts";
import { Gate } from "../support/gate.ts";
import { receiveMessage, sendMessage } from "../support/software_messages.ts";

/** Milliseconds after its cause in which a fault must have been noticed. */
const promptly = 1000;
/** Milliseconds in which what has nothing to wait for must have happened, on a machine that has much to do. */
const patience = 20_000;

/** Another process, and what can be called there. */
export interface CalledPeer<Calls extends Record<keyof Calls, (...args: never[]) => unknown>> extends AsyncDisposable {
  readonly pid: number;
  /** Calls a function of it. What that throws is thrown as a `PeerError`. */
  call<Name extends keyof Calls>(
    name: Name,
    ...args: Parameters<Calls[Name]>
  ): Promise<Awaited<ReturnType<Calls[Name]>>>;
  /** Sends a signal; one that ends it has done so when this resolves. */
  kill(signal?: "SIGKILL" | "SIGSTOP" | "SIGCONT"): Promise<void>;
}

/** Another process: `children/sharing/sharing_peer.ts`. */
export type SharingPeer = CalledPeer<PeerCalls>;

/** What was thrown in another process. */
export class PeerError extends Error {
  readonly code: string | undefined;
  /** The class that it was of there. */
  readonly thrown: string;

  constructor({ name, code, message }: PeerFailure) {
    super(message);
    this.code = code;
    this.thrown = name;
  }
}

/** What a test begins with. */
export interface Fixture {
  readonly cuda: Cuda;
  readonly gpu: CudaDevice;
  readonly driver: Driver;
  /** Opens the driver another time. */
  openDriver(): Driver;
  /** Created non-blocking. */
  readonly stream: CudaStream;
  /** Of the device, to be shared. */
  readonly pool: MemoryPool;
  readonly gate: Gate;
  /** Where an exporter may listen. */
  readonly path: string;
  /** Starts another process, which ends with the test. */
  start(options?: PeerOptions): Promise<SharingPeer>;
}

/** Options of `Fixture.start`. */
export interface PeerOptions extends StartOptions {
  /** Whether it opens the devices that its environment says. */
  readonly byEnvironment?: boolean;
}

/** What cannot be used as a stream, with the errors that say so; what was made for it goes with `made`. */
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

/** What a test is like. */
export interface SharingTestOptions {
  /** Whether it can be arranged on the software device alone. */
  readonly softwareOnly?: boolean;
  /** Devices; 1 unless given. */
  readonly devices?: number;
}

/**
 * A test on each driver, of which nothing may be left afterwards: descriptors, mappings, processes, or memory of its pool.
 */
export function sharingTest(
  name: string,
  body: (fixture: Fixture) => Promise<void>,
  { softwareOnly = false, devices = 1 }: SharingTestOptions = {},
): void {
  for (const driver of driversUnderTest) {
    if (softwareOnly && driver.name !== "software") continue;
    const skip = driver.skip || shimRefusal() || tooFewDevices(driver, devices);
    leakTest(`${name} [${driver.name}]`, () => withFixture(driver, body), {
      skip,
      warmUp: () => warmUp(driver),
    });
  }
}

const warmedUp = new Map<string, Promise<void>>();

/** What a first connection makes once and keeps is made before anything is counted. */
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
    // The end of a process that was killed is seen soon, not at once: its memory stays as long.
    await soon(() => pool.usage().used === 0, "memory of the pool is given back");
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
  const socket = stack.use(await listener.accept({ signal: AbortSignal.timeout(patience) }));
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

/** Resolves when something is so; fails where that takes longer than a second. */
export async function soon(isSo: () => boolean, what: string): Promise<void> {
  const signal = AbortSignal.timeout(promptly);
  await waitUntil(isSo, { signal }).catch(() => {
    throw new Error(`Not within ${promptly} ms: ${what}`);
  });
}

/** Fails unless a promise rejects with an error of sharing, here or in another process, within a second from now. */
export async function assertFailsSoon(promise: Promise<unknown>, code: SharingErrorCode, text = ""): Promise<void> {
  const error = await assertRejects(() => withinASecond(promise));
  if (!(error instanceof PeerError)) assertInstanceOf(error, SharingError);
  const { code: actual, message } = error as SharingError;
  assertEquals(actual, code, message);
  assertStringIncludes(message, text);
}

/** What a promise resolves with; fails where that takes longer than a second from now. */
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
