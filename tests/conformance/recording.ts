/**
 * What the real driver answered, as `recorded.json` has it.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import type { Outcome } from "./outcome.ts";

/** The answers of a GPU's driver, and which it was. */
export interface Recording {
  /** The driver's version, "580.159.03". */
  readonly driver?: string;
  /** 13000 for CUDA 13.0. */
  readonly cuda?: number;
  /** The name of its devices. */
  readonly device?: string;
  /** How many there were. */
  readonly devices?: number;
  /** The day, "2025-11-21". */
  readonly date?: string;
  /** What came of each row, by its name. */
  readonly answers: Readonly<Record<string, Outcome>>;
}

/** Reads `recorded.json`. */
export function readRecording(): Recording {
  return JSON.parse(readFileSync(new URL("./recorded.json", import.meta.url), "utf8"));
}
