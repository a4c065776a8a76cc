/**
 * The programs that building and trying the package takes, each in one version, by npx.
 *
 * @module
 */

/** What npx runs each of them by. */
export const tools = {
  bun: ["-y", "bun@1.4.5"],
  node: ["-y", "-p", "node@26.10", "node"],
  tsc: ["-y", "-p", "typescript@7.0.2", "tsc"],
} as const;

/** Milliseconds that a program has, with what npx has to fetch before. */
export const patience: number = 300_000;

/** How a program is run. */
export interface RunOptions {
  readonly cwd?: string;
  /** Beside this process's own environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs one of the tools, and returns what it wrote. */
export function runTool(tool: keyof typeof tools, args: readonly string[], options: RunOptions = {}): Promise<string> {
  return run(["npx", ...tools[tool], ...args], options);
}

/**
 * Runs a program, and returns what it wrote to its standard output.
 *
 * @throws {Error} with all that it wrote, where it fails
 */
export async function run([program, ...args]: readonly string[], { cwd, env }: RunOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(program!, {
    args,
    cwd,
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
    signal: AbortSignal.timeout(patience),
  }).output();
  const [output, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  if (code === 0) return output!;
  throw new Error(`Cannot run ${[program, ...args].join(" ")}: it exited with ${code}\n${output}${errors}`);
}
