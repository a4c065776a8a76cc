/** Buffers that were not freed before what they came from was disposed. */
export interface Leak {
  readonly count: number;
  readonly byteLength: number;
  /** What was disposed, and more of it: "the pool on device 0 was disposed". */
  readonly before: string;
  /** From where each was allocated, if that was noted. */
  readonly origins?: readonly string[];
}

/** Warns of buffers that nobody can free any more, or that their users seem to have forgotten. */
export function reportLeak({ count, byteLength, before, origins = [] }: Leak): void {
  if (count === 0) return;
  const buffers = count === 1 ? "1 buffer was" : `${count} buffers were`;
  const lines = origins.map((origin) => `\n${origin}`).join("");
  console.warn(`poolpass: ${buffers} not freed before ${before}, ${byteLength} bytes${lines}`);
}

/** From where memory is being allocated, for the report. */
export function originOf(byteLength: number): string {
  return new Error(`${byteLength} bytes allocated`).stack!.replace(/^Error: /, "");
}
