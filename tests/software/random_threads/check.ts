/**
 * Compares what random programs do on several threads with what they do on one.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { freeMemory, play, type PlayOptions } from "./play.ts";
import { programOf } from "./program.ts";

/** How a program has ended. */
export type Ending = "completed" | "faulted" | "disposed";

/**
 * Runs the program of a seed on one thread and on several, unless its `Cuda` object is disposed while it runs: then only
 * on several. Throws an error that names the seed if it reads something else, faults otherwise, or leaves memory.
 */
export async function check(seed: number, options: PlayOptions): Promise<Ending> {
  const program = programOf(seed);
  const free = freeMemory();
  try {
    const several = await play(program, options);
    assertEquals(freeMemory(), free, "free memory");
    if (program.disposedAfter !== undefined) return "disposed";
    const one = await play(program, { threads: 1 });
    assertEquals(several!.fault, one!.fault);
    one!.read.forEach((words, index) => {
      const place = words.findIndex((word, place) => word !== several!.read[index]![place]);
      assert(place < 0, `word ${place} of read ${index} is ${several!.read[index]![place]}, not ${words[place]}`);
    });
    return one!.fault === undefined ? "completed" : "faulted";
  } catch (error) {
    throw new Error(`seed ${seed} with ${options.threads} threads: ${(error as Error).message}`, { cause: error });
  }
}
