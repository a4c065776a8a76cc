/**
 * The stream of a call: an option, or the stream alone in the place of the options.
 *
 * @module
 */
import { TypeError } from "../../support/program_errors.ts";
import { checkOptions, type KnownOptions } from "../../support/validation.ts";
import { CudaStream } from "./cuda_stream.ts";

/** Options of a call that needs no more than a stream. */
export interface StreamOption {
  /** The stream to use. Each method says what it defaults to. */
  stream?: CudaStream;
}

/** Options that may be given as the stream alone: `exec.launch(stream)` is `exec.launch({ stream })`. */
export type OrStream<Options extends StreamOption> = CudaStream | Options;

/** Describes the options of a call that may be given as the stream alone, also for the error of another value. */
export interface KnownStreamOptions<Options extends StreamOption> extends KnownOptions<Options> {
  /** Both forms of the call, as the error shows them: `"free(stream) or free({ stream })"`. */
  readonly usage: string;
}

/** Returns the options of a call whose last argument may be the stream alone. */
export function optionsOf<Options extends StreamOption>(given: OrStream<Options>): Options {
  return given instanceof CudaStream ? { stream: given } as Options : given;
}

/**
 * Returns the stream of a call that has no other options, such as `buffer.free`. The caller checks the stream.
 *
 * @throws {TypeError} If `given` has other options than a stream
 */
export function streamOf(
  given: OrStream<StreamOption> | undefined,
  known: KnownStreamOptions<StreamOption>,
): CudaStream | undefined {
  return given === undefined || given instanceof CudaStream ? given : namedOptions(given, undefined, known).stream;
}

/** Returns whether a call in its form `(stream, options)` has no options besides the stream. */
export function hasStreamAlone<Options extends StreamOption>(
  given: OrStream<Options> | undefined,
  rest: Options | undefined,
): given is CudaStream | undefined {
  return rest === undefined && (given === undefined || given instanceof CudaStream);
}

/**
 * Checks and returns the options of a call in its form `(stream, options)` or `(options)`. A value in the place of the
 * stream that is neither is returned as the stream, whose check refuses it.
 *
 * @param given what is in the place of the stream
 * @param rest the options behind the stream, in the first form
 * @throws {TypeError} If there is no such option, or the stream or the options are given twice
 */
export function namedOptions<Options extends StreamOption>(
  given: OrStream<Options> | undefined,
  rest: Options | undefined,
  known: KnownStreamOptions<Options>,
): Options {
  if (given !== undefined && !(given instanceof CudaStream)) {
    if (!isOptions(given, known)) return { stream: given } as unknown as Options;
    checkOptions(given, known);
    if (rest !== undefined) throw errorOfTwo("objects of options", known);
    return given;
  }
  const options = rest!;
  checkOptions(options, known);
  if (given !== undefined && options.stream !== undefined) throw errorOfTwo("streams", known);
  return options;
}

function errorOfTwo(what: string, { action, usage }: KnownStreamOptions<StreamOption>): TypeError {
  return new TypeError(`Cannot ${action} with two ${what}: give one, as in ${usage}`);
}

/** Returns whether a value is an object of options: a plain one, or one of a class that has nothing but known options. */
function isOptions(given: unknown, { names }: KnownOptions<object>): boolean {
  if (typeof given !== "object" || given === null || Array.isArray(given)) return false;
  const prototype = Object.getPrototypeOf(given);
  if (prototype === null || prototype === Object.prototype || given.constructor?.name === "Object") return true;
  const keys = Object.keys(given);
  return keys.length > 0 && keys.every((key) => (names as Readonly<Record<string, unknown>>)[key] === true);
}
