/**
 * A driver in a second process, which a row calls like its own.
 *
 * @module
 */
import type { Driver } from "../../src/driver.ts";
import { decodeValue, encodeValue } from "../support/call_values.ts";
import { Gate } from "./gate.ts";
import { type Fill, launchFill, readBytes } from "./launch.ts";
import { type LongWork, prepareLongWork } from "./long_work.ts";
import type { Fixture, Peer, Role } from "./situation.ts";

/**
 * Functions that a second process offers beside the methods of its driver, because they need memory of that process.
 */
export interface PeerWork {
  /** Launches `fill` without waiting for it. */
  fill(device: number, fill: Fill): void;
  /** Returns the first bytes of memory, after synchronizing the default stream of the device. */
  read(device: number, address: bigint, byteLength: number): number[];
  /** Prepares the work that `keepBusy` enqueues. */
  prepareLongWork(device: number): void;
  /** Enqueues launches on a stream of device 0 without waiting for them. */
  keepBusy(stream: bigint, launches?: number): void;
}

type Callable = Driver & PeerWork;
type Method = {
  [M in keyof Callable]: Callable[M] extends (...values: never[]) => unknown ? M : never;
}[keyof Callable];
type Parameters<M extends Method> = Callable[M] extends (...values: infer Values) => unknown ? Values : never;
type Value<M extends Method> = Callable[M] extends (...values: never[]) => infer Result ? Result : never;

/** A process with a driver of the same kind. */
export interface RemoteDriver {
  /** Calls a method in the process. Throws the CudaError that the method throws. Arguments and result are copied. */
  call<M extends Method>(method: M, ...values: Parameters<M>): Promise<Value<M>>;
  /** Kills the process with SIGKILL and waits until it has ended. */
  kill(): Promise<void>;
}

/** Starts a second process with a driver. */
export async function startRemoteDriver(fixture: Fixture): Promise<RemoteDriver> {
  const peer: Peer = await fixture.startPeer("driver");
  return {
    async call<M extends Method>(method: M, ...values: Parameters<M>) {
      // The other process blocks until what it waits for is done here.
      if (method === "eventSynchronize") Gate.open(fixture.driver);
      const { bytes } = await peer.ask(encodeValue([method, ...values]));
      return decodeValue(bytes) as Value<M>;
    },
    kill: () => peer.kill(),
  };
}

/** The role that the second process runs. */
export const driverRole: Role = (driver) => {
  const works = new Map<number, LongWork>();
  const work: PeerWork = {
    fill: (device, fill) => launchFill(driver, device, fill),
    read: (device, address, byteLength) => readBytes(driver, device, address, byteLength),
    prepareLongWork: (device) => void works.set(device, prepareLongWork(driver, device, { observed: "elsewhere" })),
    keepBusy: (stream, launches) => works.get(0)!.keepBusy(stream, launches),
  };
  return ({ bytes }) => {
    const [method, ...values] = decodeValue(bytes) as [Method, ...unknown[]];
    const target = (method in work ? work : driver) as unknown as Record<string, (...values: unknown[]) => unknown>;
    return { bytes: encodeValue(target[method]!(...values)) };
  };
};
