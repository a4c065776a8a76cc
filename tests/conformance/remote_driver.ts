/**
 * A driver in a second process, called from the row as its own is.
 *
 * @module
 */
import type { Driver } from "../../src/driver.ts";
import { decodeValue, encodeValue } from "../support/call_values.ts";
import { type Fill, launchFill, readBytes } from "./launch.ts";
import { type LongWork, prepareLongWork } from "./long_work.ts";
import type { Peer, Role, Stage } from "./situation.ts";

/** What a second process can do beside its driver's methods: what takes memory of its own. */
export interface PeerWork {
  /** Launches a kernel that fills memory, and does not wait for it. */
  fill(device: number, fill: Fill): void;
  /** The first bytes of memory, once the work of the device's default stream is done. */
  read(device: number, address: bigint, byteLength: number): number[];
  /** Makes ready to keep streams of a device busy. */
  prepareLongWork(device: number): void;
  /** Gives a stream of device 0 work for some pieces, and does not wait for it. */
  keepBusy(stream: bigint, pieces?: number): void;
}

type Callable = Driver & PeerWork;
type Method = {
  [M in keyof Callable]: Callable[M] extends (...values: never[]) => unknown ? M : never;
}[keyof Callable];
type Parameters<M extends Method> = Callable[M] extends (...values: infer Values) => unknown ? Values : never;
type Value<M extends Method> = Callable[M] extends (...values: never[]) => infer Result ? Result : never;

/** Another process with a driver of the same kind. */
export interface RemoteDriver {
  /** Calls a method there, with the CudaError that it fails with. What is passed and returned is copied. */
  call<M extends Method>(method: M, ...values: Parameters<M>): Promise<Value<M>>;
  /** Ends the process with SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
}

/** Starts a second process with a driver. */
export async function startRemoteDriver(stage: Stage): Promise<RemoteDriver> {
  const peer: Peer = await stage.startPeer("driver");
  return {
    async call<M extends Method>(method: M, ...values: Parameters<M>) {
      const { bytes } = await peer.ask(encodeValue([method, ...values]));
      return decodeValue(bytes) as Value<M>;
    },
    kill: () => peer.kill(),
  };
}

/** The role of the second process. */
export const driverRole: Role = (driver) => {
  const works = new Map<number, LongWork>();
  const work: PeerWork = {
    fill: (device, fill) => launchFill(driver, device, fill),
    read: (device, address, byteLength) => readBytes(driver, device, address, byteLength),
    prepareLongWork: (device) => void works.set(device, prepareLongWork(driver, device)),
    keepBusy: (stream, pieces) => works.get(0)!.keepBusy(stream, pieces),
  };
  return ({ bytes }) => {
    const [method, ...values] = decodeValue(bytes) as [Method, ...unknown[]];
    const target = (method in work ? work : driver) as unknown as Record<string, (...values: unknown[]) => unknown>;
    return { bytes: encodeValue(target[method]!(...values)) };
  };
};
