/**
 * The kinds of mistakes, by the check that finds them.
 *
 * @module
 */
import type { SanitizerCheck } from "./sanitizer_report.ts";

const unordered = [
  "unordered-write-read",
  "unordered-read-write",
  "unordered-write-write",
  "unordered-write-atomic",
  "unordered-atomic-write",
  "unordered-read-atomic",
  "unordered-atomic-read",
];

/** The kinds of each check. A kind that is missing here cannot be suppressed. */
export const reportKinds: Readonly<Record<SanitizerCheck, readonly string[]>> = {
  "stream-order": [
    ...unordered,
    ...unordered.map((kind) => `possible-${kind}`),
    "possible-use-after-free",
    "use-before-allocation",
    "use-after-free",
    "source-overwritten",
    "unrecorded-event",
  ],
  memory: [
    "out-of-bounds",
    "use-after-free",
    "use-before-allocation",
    "inaccessible",
    "misaligned",
    "invalid-address",
    "invalid-free",
    "stack-overflow",
  ],
  initialization: [
    "uninitialized-branch",
    "uninitialized-address",
    "uninitialized-atomic",
    "uninitialized-barrier",
    "uninitialized-size",
    "uninitialized-host-read",
  ],
  race: ["shared-race", "global-race", "insufficient-scope", "unfinished-copy", "non-coherent-read"],
  synchronization: ["divergent-barrier", "wrong-mask", "deadlock", "barrier-count", "mixed-barrier"],
  leak: ["leak"],
};
