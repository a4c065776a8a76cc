/**
 * The control messages between the two processes of poolpass, which are not part of what is measured.
 *
 * @module
 */
import type { UnixSocket } from "../../mod.ts";

/** The workloads, in the order of the numbers that stand for them in messages. */
const works = ["share-one", "share-one-asked", "share-one-offer", "share-thousand", "share-thousand-offer"] as const;

/** A job for the importing process. */
export interface Job {
  readonly work: typeof works[number];
  readonly repetitions: number;
  /** The size of a buffer, in bytes. */
  readonly byteLength: number;
  /** The number of buffers that are shared together. */
  readonly count: number;
}

/** The size of the data from `DeviceBuffer.exportPointer`, in bytes. */
export const pointerByteLength = 64;

/** The size of a slab's length, and of a buffer's offset in the slab, in bytes. */
export const numberByteLength = 8;

const jobByteLength = 16;

/** Sends a job. */
export async function sendJob(control: UnixSocket, job: Job): Promise<void> {
  const { work, repetitions, byteLength, count } = job;
  const words = Uint32Array.of(works.indexOf(work), repetitions, byteLength, count);
  await control.send(new Uint8Array(words.buffer));
}

/** Waits for the next job. */
export async function receiveJob(control: UnixSocket): Promise<Job> {
  const { bytes } = await control.receive(jobByteLength);
  const [work, repetitions, byteLength, count] = new Uint32Array(bytes.buffer) as unknown as Tuple;
  return { work: works[work]!, repetitions, byteLength, count };
}

/** Tells the other process that a step is done. */
export async function acknowledge(control: UnixSocket): Promise<void> {
  await control.send(new Uint8Array(1));
}

/** Waits until the other process acknowledges a step. */
export async function acknowledged(control: UnixSocket): Promise<void> {
  await control.receive(1);
}

type Tuple = [number, number, number, number];
