/**
 * What came of trials, one after another in a file, so that what was written stays when the process that wrote it ends.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import type { Outcome } from "./trial.ts";

const headerBytes = 12;

/** The bytes of one outcome. */
export function frameOf(index: number, outcome: Outcome): Uint8Array {
  const isError = outcome instanceof Error;
  const body = isError ? new TextEncoder().encode(outcome.message) : outcome;
  const frame = new Uint8Array(headerBytes + body.length);
  new Uint32Array(frame.buffer, 0, 3).set([index, Number(isError), body.length]);
  frame.set(body, headerBytes);
  return frame;
}

/** All outcomes in a file, by their index. A last one that is cut off is left out. */
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
