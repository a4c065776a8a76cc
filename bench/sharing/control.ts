/**
 * What the two processes of poolpass tell each other beside what is measured.
 *
 * @module
 */
import type { UnixSocket } from "../../mod.ts";

/** What is done together, in the order of the numbers by which it is told. */
const works = ["share-one", "share-one-asked", "share-one-offer", "share-thousand", "share-thousand-offer"] as const;

/** What the process that imports is to do. */
export interface Job {
  readonly work: typeof works[number];
  readonly repetitions: number;
  /** Bytes of a buffer. */
  readonly byteLength: number;
  /** Buffers that are shared together. */
  readonly count: number;
}

/** Bytes of `DeviceBuffer.exportPointer`. */
export const pointerByteLength = 64;

/** Bytes of a slab's size, and of where in it a buffer begins. */
export const numberByteLength = 8;

const jobByteLength = 16;

/** Says what is to be done. */
export async function sendJob(control: UnixSocket, job: Job): Promise<void> {
  const { work, repetitions, byteLength, count } = job;
  const words = Uint32Array.of(works.indexOf(work), repetitions, byteLength, count);
  await control.send(new Uint8Array(words.buffer));
}

/** Waits until something is to be done. */
export async function receiveJob(control: UnixSocket): Promise<Job> {
  const { bytes } = await control.receive(jobByteLength);
  const [work, repetitions, byteLength, count] = new Uint32Array(bytes.buffer) as unknown as Tuple;
  return { work: works[work]!, repetitions, byteLength, count };
}

/** Says that it is done. */
export async function acknowledge(control: UnixSocket): Promise<void> {
  await control.send(new Uint8Array(1));
}

/** Waits until the other process says that it is done. */
export async function acknowledged(control: UnixSocket): Promise<void> {
  await control.receive(1);
}

type Tuple = [number, number, number, number];
