/**
 * The programs that measure all-reduces: how they are built, and a run of each.
 *
 * @module
 */
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { outputOf } from "../harness/programs.ts";

/** What all programs measure. */
export interface Measurement {
  /** How many ranks, each a process with a device of its own. */
  readonly ranks: number;
  /** In bytes. */
  readonly sizes: readonly number[];
  /** How often small ones are repeated in a round. */
  readonly iterations: number;
  /** Milliseconds after which the processes of a run are killed. */
  readonly timeout: number;
}

/** What an all-reduce takes. */
export interface Times {
  readonly microseconds: number;
  /** If each is waited for: only of small ones. */
  readonly waitedMicroseconds?: number;
}

/** What a program says of a size. */
export interface Measured extends Times {
  readonly byteLength: number;
  /** The same of C++ in the same processes, if it was measured there. */
  readonly native?: Times;
}

/** What a run gives. */
export interface Run {
  readonly sizes: readonly Measured[];
  /** What has run, if the program says so. */
  readonly version: string | undefined;
}

/** Measures once, with new processes. */
export type Runner = (measurement: Measurement) => Promise<Run>;

const path = (file: string) => fileURLToPath(new URL(file, import.meta.url));

/** The environment of all programs. NVLink's multicast is not to be had on every machine, and it is not what differs. */
const common: Readonly<Record<string, string>> = { NCCL_NVLS_ENABLE: Deno.env.get("NCCL_NVLS_ENABLE") ?? "0" };

/** A process of a run. */
class Process {
  readonly ended: Promise<void>;
  readonly #child: Deno.ChildProcess;
  readonly #lines: AsyncIterator<string>;
  #isRunning = true;

  constructor(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    this.#child = new Deno.Command(command, {
      args: [...args],
      env: { ...common, ...env },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#lines = createInterface({ input: Readable.fromWeb(this.#child.stdout as never) })[Symbol.asyncIterator]();
    const errors = new Response(this.#child.stderr).text();
    this.ended = this.#child.status.then(async ({ success, code, signal }) => {
      this.#isRunning = false;
      if (success) return;
      const said = (await errors).trimEnd().split("\n").at(-1);
      throw new Error(`it ended with ${signal ?? code}${said ? `: ${said}` : ""}`);
    });
    // Whoever waits for it gets the error.
    this.ended.catch(() => {});
  }

  /** Resolves to the next line, as JSON. If there is none, throws why the process has ended. */
  async next<Line>(): Promise<Line> {
    const { value, done } = await this.#lines.next();
    if (!done) return JSON.parse(value);
    await this.ended;
    throw new Error("it ended early");
  }

  /** The lines that are left, as JSON. */
  async rest<Line>(): Promise<Line[]> {
    const lines: Line[] = [];
    for (let next = await this.#lines.next(); !next.done; next = await this.#lines.next()) {
      lines.push(JSON.parse(next.value));
    }
    return lines;
  }

  kill(): void {
    if (this.#isRunning) this.#child.kill("SIGKILL");
  }
}

/** Runs processes, and kills those that are left if one fails or time is up. */
async function runTogether(
  { timeout, sizes }: Measurement,
  start: (add: (process: Process) => Process) => Promise<{ first: Process; version?: string }>,
): Promise<Run> {
  const processes: Process[] = [];
  const kill = () => processes.forEach((process) => process.kill());
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    kill();
  }, timeout);
  const add = (process: Process) => {
    processes.push(process);
    // The others would wait for it.
    process.ended.catch(kill);
    return process;
  };
  try {
    const { first, version } = await start(add);
    const measured = await first.rest<Measured>();
    // The first one that fails is the one that says why.
    await Promise.all(processes.map(({ ended }) => ended));
    const missing = sizes.find((size) => !measured.some(({ byteLength }) => byteLength === size));
    if (missing !== undefined) throw new Error(`it has not measured ${missing} bytes`);
    return { sizes: measured, version };
  } catch (error) {
    throw isLate ? new Error(`it took longer than ${timeout / 1000} s (--timeout)`) : error;
  } finally {
    clearTimeout(timer);
    kill();
    await Promise.allSettled(processes.map(({ ended }) => ended));
  }
}

/** What `native.cu` is built to: a program, and a library for the processes of `rank.ts`. */
export interface Native {
  readonly program: string;
  readonly library: string;
}

/**
 * Builds `native.cu`. `NCCL_HOME` may name the folder that has `include/nccl.h` and `lib`.
 *
 * @throws {Error} If it cannot be built
 */
export async function buildNative(folder: string): Promise<Native> {
  const native = { program: `${folder}/native`, library: `${folder}/libnative.so` };
  const home = Deno.env.get("NCCL_HOME");
  const found = home === undefined ? [] : [`-I${home}/include`, `-L${home}/lib`, "-Xlinker", `-rpath=${home}/lib`];
  const build = async (out: string, ...options: string[]) => {
    // NVIDIA's package for Python has no libnccl.so.
    const args = ["-O2", "-std=c++17", ...options, "-o", out, path("native.cu"), ...found, "-l:libnccl.so.2"];
    await outputOf(["nvcc", ...args]);
  };
  await Promise.all([build(native.program), build(native.library, "-shared", "-Xcompiler", "-fPIC")]);
  return native;
}

/** Measures C++ in processes of its own. */
export function runNative({ program }: Native): Runner {
  return (measurement) =>
    runTogether(measurement, (add) => {
      const { ranks, sizes, iterations } = measurement;
      return Promise.resolve({ first: add(new Process(program, [`${ranks}`, sizes.join(), `${iterations}`])) });
    });
}

/** Measures the library, and C++ in the same processes if it was built. */
export function runPoolpass(native?: Native): Runner {
  return (measurement) => {
    const { ranks, sizes, iterations } = measurement;
    const rank = (number: number, id: string) =>
      new Process(Deno.execPath(), [
        "run",
        "--allow-all",
        path("rank.ts"),
        `${number}`,
        `${ranks}`,
        id,
        sizes.join(),
        `${iterations}`,
        ...native === undefined ? [] : [native.library],
      ]);
    return runTogether(measurement, async (add) => {
      const first = add(rank(0, "-"));
      const { id } = await first.next<{ id: string }>();
      for (let number = 1; number < ranks; number++) add(rank(number, id));
      return { first };
    });
  };
}

/** Measures torch.distributed. */
export function runTorch(python: string, folder: string): Runner {
  let run = 0;
  return (measurement) => {
    const { ranks, sizes, iterations } = measurement;
    const args = [path("torch_rank.py"), `${folder}/rendezvous-${run++}`, sizes.join(), `${iterations}`];
    return runTogether(measurement, async (add) => {
      const [first] = Array.from(
        { length: ranks },
        (_, rank) => add(new Process(python, args, { RANK: `${rank}`, WORLD_SIZE: `${ranks}` })),
      ) as [Process];
      const { version } = await first.next<{ version: string }>();
      return { first, version };
    });
  };
}
