/**
 * A file of outcomes, one frame after the other. Outcomes that a process has written remain if the process ends.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import type { Outcome } from "./trial.ts";

const headerBytes = 12;

/** Returns the frame of an outcome. */
export function frameOf(index: number, outcome: Outcome): Uint8Array {
  const isError = outcome instanceof Error;
  const body = isError ? new TextEncoder().encode(outcome.message) : outcome;
  const frame = new Uint8Array(headerBytes + body.length);
  new Uint32Array(frame.buffer, 0, 3).set([index, Number(isError), body.length]);
  frame.set(body, headerBytes);
  return frame;
}

/** Reads all outcomes of a file, by index. Leaves out an incomplete last frame. */
export function readFrames(path: string): Map<number, Outcome> {
  const bytes = new Uint8Array(readFileSync(path));
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const outcomes = new Map<number, Outcome>();
  for (let at = 0; at + headerBytes <= bytes.length;) {
    const [index, isError, length] = [0, 4, 8].map((offset) => view.getUint32(at + offset, true)) as [
      number,
      number,
      number,
    ];
    const begin = at + headerBytes;
    if (begin + length > bytes.length) break;
    const body = bytes.slice(begin, begin + length);
    outcomes.set(index, isError === 1 ? new Error(new TextDecoder().decode(body)) : body);
    at = begin + length;
  }
  return outcomes;
}
