/**
 * What a program has asked for, as far as the sanitizer looks at it.
 *
 * @module
 */
import type { CallSite } from "./reporting/call_sites.ts";
import type { Point } from "./order/timelines.ts";

/** A call that accesses, allocates or frees memory. */
export interface Operation extends Point {
  /** `"kernel saxpy"`, `"copyFrom"`, `"free"` and so on. */
  readonly name: string;
  readonly site: CallSite;
  /** How much work its process had asked for, with it. */
  readonly asked: number;
}
