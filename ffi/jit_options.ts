/**
 * The options of the driver's JIT compiler and linker, as the arrays that `cuModuleLoadDataEx` and `cuLinkCreate` take.
 *
 * @module
 */
import type { JitOptions } from "../src/driver.ts";
import { addressOf } from "./native/host.ts";

/** `CUjit_option` */
const jitOption = {
  maxRegisters: 0,
  infoLogBuffer: 3,
  infoLogBufferSizeBytes: 4,
  errorLogBuffer: 5,
  errorLogBufferSizeBytes: 6,
  optimizationLevel: 7,
  generateDebugInfo: 11,
  logVerbose: 12,
  generateLineInfo: 13,
} as const;

const errorLogBytes = 8192;
/** With `verbose`, the log has several lines for each kernel. */
const infoLogBytes = { brief: 8192, verbose: 256 * 1024 } as const;

/**
 * The options of one call, and the logs that the call writes. Its arrays hold addresses of the logs: it must be reachable
 * until the call returns, and for `cuLinkCreate` until the link is destroyed.
 */
export class JitCall {
  /** The number of options. */
  readonly count: number;
  /** `CUjit_option *options` */
  readonly options: Uint8Array;
  /** `void **optionValues` */
  readonly values: Uint8Array;
  readonly #errorLog = new Uint8Array(errorLogBytes);
  readonly #infoLog: Uint8Array | undefined;
  readonly #onInfoLog: JitOptions["onInfoLog"];

  constructor({ maxRegisters, optimizationLevel, lineInfo, debug, verbose, onInfoLog }: JitOptions = {}) {
    const options: number[] = [jitOption.errorLogBuffer, jitOption.errorLogBufferSizeBytes];
    const values = [addressOf(this.#errorLog), BigInt(errorLogBytes)];
    const add = (option: number, value: bigint) => {
      options.push(option);
      values.push(value);
    };
    if (onInfoLog !== undefined) {
      this.#onInfoLog = onInfoLog;
      this.#infoLog = new Uint8Array(verbose ? infoLogBytes.verbose : infoLogBytes.brief);
      add(jitOption.infoLogBuffer, addressOf(this.#infoLog));
      add(jitOption.infoLogBufferSizeBytes, BigInt(this.#infoLog.length));
    }
    if (maxRegisters !== undefined) add(jitOption.maxRegisters, BigInt(maxRegisters));
    if (optimizationLevel !== undefined) add(jitOption.optimizationLevel, BigInt(optimizationLevel));
    if (debug) add(jitOption.generateDebugInfo, 1n);
    if (lineInfo) add(jitOption.generateLineInfo, 1n);
    if (verbose) add(jitOption.logVerbose, 1n);
    this.count = options.length;
    this.options = new Uint8Array(new Int32Array(options).buffer);
    this.values = new Uint8Array(new BigUint64Array(values).buffer);
  }

  /** What the compiler or the linker has said of an error. */
  errorLog(): string {
    return textOf(this.#errorLog);
  }

  /** Passes on what else it has said. */
  reportInfoLog(): void {
    if (this.#infoLog !== undefined) this.#onInfoLog?.(textOf(this.#infoLog));
  }
}

/** The text before the first NUL. */
function textOf(log: Uint8Array): string {
  const end = log.indexOf(0);
  return new TextDecoder().decode(end < 0 ? log : log.subarray(0, end)).trim();
}
