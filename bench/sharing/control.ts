/**
 * What the two processes of poolpass tell each other beside what is measured.
 *
 * @module
 */
import type { UnixSocket } from "../../mod.ts";
import type { Request } from "./contract.ts";

/** What is done together, in the order of the numbers by which it is told. */
const works = ["share-one", "share-one-offer", "share-thousand"] as const;
/** How the process that imports waits for its stream, in the order of the numbers by which it is told. */
const waitings = ["finished", "synchronize"] as const;

/** What the process that imports is to do. */
export interface Job {
  readonly work: typeof works[number];
  readonly repetitions: number;
  /** Bytes of a buffer. */
  readonly byteLength: number;
  /** Buffers that are shared together. */
  readonly count: number;
  /** By which of the stream's methods "share-one" waits until a mapping is freed. */
  readonly waiting: typeof waitings[number];
}

/** Bytes of `DeviceBuffer.exportPointer`. */
export const pointerByteLength = 64;

const jobByteLength = 20;

/** Says what is to be done. */
export async function sendJob(control: UnixSocket, job: Job): Promise<void> {
  const { work, repetitions, byteLength, count, waiting } = job;
  const words = Uint32Array.of(works.indexOf(work), repetitions, byteLength, count, waitings.indexOf(waiting));
  await control.send(new Uint8Array(words.buffer));
}

/** How a request says that the process that imports is to wait: `finished` unless it says otherwise. */
export function waitingOf({ waiting = "finished" }: Request): Job["waiting"] {
  const known = waitings.find((each) => each === waiting);
  if (known !== undefined) return known;
  throw new RangeError(`Cannot wait by ${waiting}: it is one of ${waitings.join(", ")}`);
}

/** Waits until something is to be done. */
export async function receiveJob(control: UnixSocket): Promise<Job> {
  const { bytes } = await control.receive(jobByteLength);
  const [work, repetitions, byteLength, count, waiting] = new Uint32Array(bytes.buffer) as unknown as Tuple;
  return { work: works[work]!, repetitions, byteLength, count, waiting: waitings[waiting]! };
}

/** Says that it is done. */
export async function acknowledge(control: UnixSocket): Promise<void> {
  await control.send(new Uint8Array(1));
}

/** Waits until the other process says that it is done. */
export async function acknowledged(control: UnixSocket): Promise<void> {
  await control.receive(1);
}

type Tuple = [number, number, number, number, number];
