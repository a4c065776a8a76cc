/**
 * The programs that building and trying the packages needs. npx runs a fixed version of each.
 *
 * @module
 */

/** The arguments with which npx runs each program. */
export const tools = {
  bun: ["-y", "bun@1.4.5"],
  oldNode: ["-y", "-p", "node@20.20", "node"],
  node: ["-y", "-p", "node@26.10", "node"],
  tsc: ["-y", "-p", "typescript@7.0.2", "tsc"],
} as const;

/** Milliseconds that a program may run, including the time that npx needs to download it. */
export const timeout: number = 300_000;

/** Options for running a program. */
export interface RunOptions {
  readonly cwd?: string;
  /** Variables in addition to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs one of the tools and returns its standard output. */
export function runTool(tool: keyof typeof tools, args: readonly string[], options: RunOptions = {}): Promise<string> {
  return run(["npx", ...tools[tool], ...args], options);
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
