/**
 * How a program that is measured is spoken with: a line of JSON each way.
 *
 * @module
 */
import process from "node:process";
import { createInterface } from "node:readline";

/** Said once, when the program is ready. */
export interface Greeting {
  readonly name: string;
  /** What it runs on: "NVIDIA H200", say. */
  readonly device: string;
  /** The device's: "GPU-14e79943-d9b5-ef5b-1063-3010823d4b49", say. */
  readonly uuid: string;
  readonly isSoftware: boolean;
  /** Of what it is made of. */
  readonly versions: string;
  /** What it can be asked for. */
  readonly works: readonly string[];
}

/** What is asked for: a work, how many samples of it, and the work's own numbers. */
export interface Request {
  readonly work: string;
  readonly repetitions: number;
  /** Samples that come first and are not counted; each work has a number of its own unless given. */
  readonly warmUp?: number;
  readonly [parameter: string]: unknown;
}

/** What is answered: the time of each sample, or why there are none. */
export type Answer = { readonly nanoseconds: readonly number[] } | { readonly error: string };

/** Does what is asked for, and gives the nanoseconds of each sample. */
export type Work = (request: Request) => readonly number[] | Promise<readonly number[]>;

/** Milliseconds: whoever asks waits for somewhat longer. */
const requestTimeout = 30_000;

/**
 * Greets, and answers until standard input ends. A work that fails is answered by its error, and so is one that takes too
 * long, with which the program ends.
 */
export async function answerRequests(
  greeting: Omit<Greeting, "works">,
  works: Readonly<Record<string, Work>>,
): Promise<void> {
  say({ ...greeting, works: Object.keys(works) });
  for await (const line of createInterface({ input: process.stdin })) {
    const timer = setTimeout(() => {
      say({ error: `it took longer than ${requestTimeout / 1000} s` });
      process.exit(1);
    }, requestTimeout);
    say(await answer(JSON.parse(line), works));
    clearTimeout(timer);
  }
}

/** A number of a request, or what is taken where it has none of the name. */
export function numberOf(request: Request, name: string, otherwise: number): number {
  const value = request[name] ?? otherwise;
  if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) return value;
  throw new RangeError(`Cannot do "${request.work}": ${name} is ${value}, and must be a whole number above 0`);
}

async function answer(request: Request, works: Readonly<Record<string, Work>>): Promise<Answer> {
  const work = works[request.work];
  if (work === undefined) return { error: `there is no work "${request.work}"` };
  try {
    return { nanoseconds: await work(request) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

function say(line: Greeting | Answer): void {
  console.log(JSON.stringify(line));
}
