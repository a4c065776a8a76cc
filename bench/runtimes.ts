/**
 * How a program is started in each of the runtimes.
 *
 * @module
 */

/**
 * The command of a program, with Deno's own flags. A runtime is found by its name, or where the variables POOLPASS_BUN and
 * POOLPASS_NODE say.
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
