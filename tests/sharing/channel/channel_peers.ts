/**
 * Other processes for tests of channels. Each receives its calls through a channel of its own.
 *
 * @module
 */
import type { Cuda } from "../../../src/objects/cuda.ts";
import type { ChannelProducer } from "../../../src/sharing/channel/channel_producer.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import type { JsonValue } from "../../../src/sharing/protocol/metadata.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";
import { replaceProperty } from "../../support/adapted_driver.ts";
import { type StartOptions, startScript } from "../../support/child_process.ts";
import type { ChannelPeerCalls } from "../../children/sharing/channel_peer.ts";
import { type CalledPeer, PeerError } from "../sharing_peers.ts";

/** Milliseconds in which a call must be answered, even on a busy machine. */
const answerTimeout = 20_000;

/** A process that runs `children/sharing/channel_peer.ts`. */
export type ChannelPeer = CalledPeer<ChannelPeerCalls>;

let started = 0;

/** Starts a process that uses the same driver. `folder` is where the control channel's socket is created. */
export async function startChannelPeer(
  cuda: Cuda,
  folder: string,
  options: StartOptions = {},
): Promise<ChannelPeer> {
  const path = `${folder}/control-${started++}`;
  await using stack = new AsyncDisposableStack();
  const gpu = cuda.device(0);
  const stream = stack.use(gpu.createStream({ nonBlocking: true }));
  const pool = stack.use(gpu.createPool({ handleType: "posix-fd" }));
  const exporter = stack.use(Exporter.listen(path, { closeTimeout: answerTimeout }));
  const control = stack.use(exporter.createChannel("control", { pool, slots: 4, slotByteLength: 4, stream }));
  const child = stack.use(startScript("children/sharing/channel_peer.ts", [cuda.driver, path], options));
  const pending = new Map<number, { resolve(result: unknown): void; reject(error: unknown): void }>();
  const ready = Promise.withResolvers<void>();
  const listening = listen();
  await ready.promise;
  const kept = stack.move();
  let last = 0;
  let sent: Promise<unknown> = Promise.resolve();

  async function listen(): Promise<void> {
    for (;;) {
      const line = await child.nextLine();
      if (line === undefined) break;
      if (line === "ready") {
        ready.resolve();
        continue;
      }
      const { number, result, error } = JSON.parse(line);
      const call = pending.get(number);
      pending.delete(number);
      if (error === undefined) call?.resolve(result);
      else call?.reject(new PeerError(error));
    }
    const error = new Error(`The process has ended: ${await child.errors()}`);
    ready.reject(error);
    for (const { reject } of pending.values()) reject(error);
  }

  async function send(message: JsonValue): Promise<void> {
    control.send(await control.reserve(), { byteLength: 0, metadata: message });
  }

  return {
    pid: child.pid,
    call(name, ...args) {
      const number = ++last;
      // If the process has ended, the answer's promise reports it.
      sent = sent.then(() => send([number, name, args as unknown as JsonValue])).catch(() => {});
      const answer = new Promise<never>((resolve, reject) => {
        const timer = setTimeout(async () => {
          child.kill("SIGKILL");
          reject(new Error(`${name} is not answered by ${child.pid}: ${await child.errors()}`));
        }, answerTimeout);
        const settle = () => {
          clearTimeout(timer);
          pending.delete(number);
        };
        pending.set(number, {
          resolve: (result) => (settle(), resolve(result as never)),
          reject: (error) => (settle(), reject(error)),
        });
      });
      // A test may await the answer later, or not at all if the process is killed.
      answer.catch(() => {});
      return answer;
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

/** Makes a process join a channel "frames", and waits until frames reach it: joining itself has no answer. */
export async function joinAndWait(peer: ChannelPeer, path: string, channel: ChannelProducer): Promise<void> {
  await peer.call("join", path, "frames");
  await waitUntil(() => channel.consumers.some(({ pid }) => pid === peer.pid), {
    signal: AbortSignal.timeout(answerTimeout),
  });
}

/** Counts the calls of a driver's methods until it is disposed. */
export function countCalls(driver: object): Disposable & { readonly calls: Record<string, number> } {
  const calls: Record<string, number> = {};
  const own = driver as Record<string, unknown>;
  // The methods of one driver are its class's, those of another one its own.
  const names = [driver, Object.getPrototypeOf(driver)].flatMap((object) => Object.getOwnPropertyNames(object))
    .filter((name) => name !== "constructor" && typeof own[name] === "function");
  const replaced = new DisposableStack();
  for (const name of names) {
    const method = own[name] as (...args: unknown[]) => unknown;
    const counting = (...args: unknown[]) => {
      calls[name] = (calls[name] ?? 0) + 1;
      return method.apply(driver, args);
    };
    replaced.use(replaceProperty(driver, name, counting));
  }
  return { calls, [Symbol.dispose]: () => replaced.dispose() };
}
