/**
 * Starts programs in each of the runtimes.
 *
 * @module
 */

/**
 * Returns the command that runs a program in a runtime. Runtimes are found by their names, or through the environment
 * variables POOLPASS_BUN and POOLPASS_NODE.
 *
 * @param denoFlags flags that only Deno gets
 */
export function commandIn(
  runtime: string,
  program: string,
  denoFlags: readonly string[],
): readonly [command: string, ...args: string[]] {
  if (runtime === "bun") return [Deno.env.get("POOLPASS_BUN") ?? "bun", program];
  if (runtime === "node") return [Deno.env.get("POOLPASS_NODE") ?? "node", "--no-warnings", program];
  return [Deno.execPath(), "run", "--no-prompt", "--no-check", ...denoFlags, program];
}

/** Measures in each runtime of a list with commas, one after another. Where that fails, a line says why. */
export async function inEachRuntime(runtimes: string, measure: (runtime: string) => Promise<void>): Promise<void> {
  for (const runtime of runtimes.split(",")) {
    try {
      await measure(runtime);
    } catch (error) {
      console.log(`\n${runtime}: not measured: ${error instanceof Error ? error.message : error}`);
    }
  }
}
