/**
 * The protocol of the measured programs: requests and answers, one line of JSON each.
 *
 * @module
 */
import process from "node:process";
import { createInterface } from "node:readline";

/** The first line, which a program prints when it is ready. */
export interface Greeting {
  readonly name: string;
  /** The device's name, for example "NVIDIA H200". */
  readonly device: string;
  /** The device's UUID, for example "GPU-14e79943-d9b5-ef5b-1063-3010823d4b49". */
  readonly uuid: string;
  readonly isSoftware: boolean;
  /** The versions of the runtime and the libraries. */
  readonly versions: string;
  /** The names of the workloads that the program can measure. */
  readonly works: readonly string[];
}

/** A request for samples of a workload. Other properties are parameters of the workload. */
export interface Request {
  /** The name of the workload. */
  readonly work: string;
  /** The number of samples. */
  readonly repetitions: number;
  /** The number of uncounted samples that come first. Each workload has its own default. */
  readonly warmUp?: number;
  readonly [parameter: string]: unknown;
}

/** The answer to a request: the time of each sample, or the reason why there are none. */
export type Answer = { readonly nanoseconds: readonly number[] } | { readonly error: string };

/** Measures a workload. Returns the nanoseconds of each sample. */
export type Workload = (request: Request) => readonly number[] | Promise<readonly number[]>;

/** Milliseconds in which a request must be answered. The requesting program waits somewhat longer. */
const requestTimeout = 30_000;

/**
 * Prints a greeting and answers requests until standard input ends. Answers with an error if a workload fails. If a
 * workload takes too long, answers with an error and ends the program.
 */
export async function answerRequests(
  greeting: Omit<Greeting, "works">,
  works: Readonly<Record<string, Workload>>,
): Promise<void> {
  printLine({ ...greeting, works: Object.keys(works) });
  for await (const line of createInterface({ input: process.stdin })) {
    const timer = setTimeout(() => {
      printLine({ error: `it took longer than ${requestTimeout / 1000} s` });
      process.exit(1);
    }, requestTimeout);
    printLine(await answer(JSON.parse(line), works));
    clearTimeout(timer);
  }
}

/** Returns a numeric parameter of a request, or its default. */
export function numberOf(request: Request, name: string, defaultValue: number): number {
  const value = request[name] ?? defaultValue;
  if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) return value;
  throw new RangeError(`Cannot measure "${request.work}": ${name} is ${value}, but must be a whole number above 0`);
}

async function answer(request: Request, works: Readonly<Record<string, Workload>>): Promise<Answer> {
  const work = works[request.work];
  if (work === undefined) return { error: `there is no workload "${request.work}"` };
  try {
    return { nanoseconds: await work(request) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

function printLine(line: Greeting | Answer): void {
  console.log(JSON.stringify(line));
}
