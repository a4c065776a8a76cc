/**
 * The real driver's answers, stored in `recorded.json`.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import type { Outcome } from "./outcome.ts";

/** The answers of a GPU's driver, and a description of the machine. */
export interface Recording {
  /** The driver's version, such as "580.159.03". */
  readonly driver?: string;
  /** The CUDA version, such as 13000 for CUDA 13.0. */
  readonly cuda?: number;
  /** The name of the devices. */
  readonly device?: string;
  /** The number of devices. */
  readonly devices?: number;
  /** The day of the recording, such as "2025-11-21". */
  readonly date?: string;
  /** The outcome of each row, by the row's name. */
  readonly answers: Readonly<Record<string, Outcome>>;
}

/** Reads `recorded.json`. */
export function readRecording(): Recording {
  return JSON.parse(readFileSync(new URL("./recorded.json", import.meta.url), "utf8"));
}
