/** Buffers that were not freed before the object that allocated them was disposed. */
export interface Leak {
  readonly count: number;
  readonly byteLength: number;
  /** What was disposed, as it follows "before": "the pool on device 0 was disposed". */
  readonly before: string;
  /** Where each buffer was allocated, if that was recorded. */
  readonly origins?: readonly string[];
  /** What to do instead. */
  readonly advice?: string;
}

/** Warns of buffers that can no longer be freed, or whose users seem to have forgotten to free them. */
export function reportLeak({ count, byteLength, before, origins = [], advice }: Leak): void {
  if (count === 0) return;
  const buffers = count === 1 ? "1 buffer was" : `${count} buffers were`;
  const lines = origins.map((origin) => `\n${origin}`).join("");
  const end = advice === undefined ? "" : `; ${advice}`;
  console.warn(`poolpass: ${buffers} not freed before ${before}, ${byteLength} bytes${end}${lines}`);
}

/** The call stack of an allocation, for the leak report. */
export function originOf(byteLength: number): string {
  return new Error(`${byteLength} bytes allocated`).stack!.replace(/^Error: /, "");
}
