/**
 * What a row of the conformance table is: a situation, in which a driver must give one answer.
 *
 * @module
 */
import type { Driver } from "../../src/driver.ts";

/** What a situation can come to: a value that JSON has, or undefined. What it throws is an answer too. */
export type Answer = string | number | boolean | null | undefined | readonly Answer[] | {
  readonly [name: string]: Answer;
};

/** What a situation has to work with. Everything made in it goes with its process. */
export interface Stage {
  /** The driver under test, opened for this situation alone. */
  readonly driver: Driver;
  /** Which one it is: "software", "cuda", or "cuda without libcudart". */
  readonly driverName: string;
  /** Opens another driver of the same kind, for situations that take two in one process. */
  openDriver(): Driver;
  /**
   * Runs a role of `tests/conformance/roles.ts` by its name in a second process that has opened a driver of the same
   * kind, gives it descriptors and bytes, and resolves with what it answers. The process stays until the situation ends,
   * and ends by a signal at `kill()`.
   */
  startPeer(role: string): Promise<Peer>;
}

/** A second process. */
export interface Peer {
  /** Sends it bytes and descriptors, and waits for its answer. */
  ask(bytes?: Uint8Array, descriptors?: readonly number[]): Promise<{ bytes: Uint8Array; descriptors: number[] }>;
  /** Ends it with SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
}

/** What a second process is asked, and what it answers. Whose the descriptors are is the process's that has them. */
export interface PeerMessage {
  readonly bytes: Uint8Array;
  readonly descriptors: readonly number[];
}

/** What a second process does: a function made for its driver, called with each request. A CudaError reaches the row. */
export type Role = (driver: Driver) => (request: PeerMessage) => Partial<PeerMessage> | Promise<Partial<PeerMessage>>;

/** One row of the table. */
export interface Situation {
  /** Unique, and says it all: "a pool's pointer exported before the pool's handle". */
  readonly name: string;
  /** Devices that it takes; 1 unless given. */
  readonly devices?: number;
  /** False where those must be no peers of each other. */
  readonly peers?: false;
  /** Milliseconds after which it counts as a hang; 20,000 unless given. */
  readonly limit?: number;
  /**
   * The answer by CUDA's documentation, where it could not be recorded, and why it could not. Where there is a recording,
   * that is what counts.
   */
  readonly documented?: { readonly answer: Answer | { readonly error: string }; readonly because: string };
  /** Does what it says, and returns what came of it; a CudaError thrown is the answer `{ error: its code }`. */
  run(stage: Stage): Answer | void | Promise<Answer | void>;
}
