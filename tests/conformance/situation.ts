/**
 * A row of the conformance table: a situation in which every driver must give the same answer.
 *
 * @module
 */
import type { Driver } from "../../src/driver.ts";

/** The answer of a situation: a JSON value or undefined. An error that it throws is an answer too. */
export type Answer = string | number | boolean | null | undefined | readonly Answer[] | {
  readonly [name: string]: Answer;
};

/** What a situation works with. Everything that it creates is freed when its process exits. */
export interface Fixture {
  /** The driver under test, opened for this situation alone. */
  readonly driver: Driver;
  /** The driver's name: "software", "cuda", or "cuda without libcudart". */
  readonly driverName: string;
  /** Opens another driver of the same kind, for situations that need two drivers in one process. */
  openDriver(): Driver;
  /**
   * Starts a second process, which opens a driver of the same kind and runs a role of `tests/conformance/roles.ts`. The
   * process runs until the situation ends or calls `kill()`.
   */
  startPeer(role: string): Promise<Peer>;
}

/** A second process. */
export interface Peer {
  /** Sends bytes and descriptors to the process and resolves with its answer. */
  ask(bytes?: Uint8Array, descriptors?: readonly number[]): Promise<{ bytes: Uint8Array; descriptors: number[] }>;
  /** Kills the process with SIGKILL and waits until it has ended. */
  kill(): Promise<void>;
}

/** A request to a second process, or its answer. The receiving process owns its copies of the descriptors. */
export interface PeerMessage {
  readonly bytes: Uint8Array;
  readonly descriptors: readonly number[];
}

/**
 * What a second process does: a function that is called once with the driver and returns a function that answers each
 * request. The row receives a CudaError that the returned function throws.
 */
export type Role = (driver: Driver) => (request: PeerMessage) => Partial<PeerMessage> | Promise<Partial<PeerMessage>>;

/** A row of the table. */
export interface Situation {
  /** Unique, and describes the row completely: "a pool's pointer exported before the pool's handle". */
  readonly name: string;
  /** The number of devices that the row needs. Default: 1. */
  readonly devices?: number;
  /** False if the devices must not be peers of each other. */
  readonly peers?: false;
  /** The time limit in milliseconds, after which the row counts as a hang. Default: 20,000. */
  readonly limit?: number;
  /**
   * For a row that could not be recorded: the answer that CUDA's documentation gives, and why the row could not be
   * recorded. Remove it when the row is recorded: a row has one or the other.
   */
  readonly documented?: { readonly answer: Answer | { readonly error: string }; readonly because: string };
  /** Does what the name says and returns the result. If it throws a CudaError, the answer is `{ error: code }`. */
  run(fixture: Fixture): Answer | void | Promise<Answer | void>;
}
