/**
 * The programs that building and trying the packages needs. npx finds a fixed version of each.
 *
 * @module
 */

/** Each program, and the package on npm that has it. */
const tools = {
  bun: ["bun", "bun@1.4.5"],
  oldNode: ["node", "node@20.20"],
  node: ["node", "node@26.10"],
  tsc: ["tsc", "typescript@7.0.2"],
} as const;

/** Where npx has each program that was needed so far. */
const found = new Map<string, Promise<string>>();

/** Milliseconds that a program may run, including the time that npx needs to download it. */
export const timeout: number = 300_000;

/** Options for running a program. */
export interface RunOptions {
  readonly cwd?: string;
  /** Variables in addition to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs one of the tools and returns its standard output. */
export async function runTool(
  tool: keyof typeof tools,
  args: readonly string[],
  options: RunOptions = {},
): Promise<string> {
  return await run([await pathOf(tool), ...args], options);
}

/** The path of a tool. npx takes a second each time, more than most of them. */
export function pathOf(tool: keyof typeof tools): Promise<string> {
  const [program, source] = tools[tool];
  const path = found.get(tool) ??
    run(["npx", "-y", "-p", source, "sh", "-c", `command -v ${program}`]).then((output) => output.trim());
  found.set(tool, path);
  return path;
}

/**
 * Runs a program and returns its standard output.
 *
 * @throws {Error} with the program's complete output if it fails.
 */
export async function run([program, ...args]: readonly string[], { cwd, env }: RunOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(program!, {
    args,
    cwd,
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
    signal: AbortSignal.timeout(timeout),
  }).output();
  const [output, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  if (code === 0) return output!;
  throw new Error(`Cannot run ${[program, ...args].join(" ")}: it exited with ${code}\n${output}${errors}`);
}
