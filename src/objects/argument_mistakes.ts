/**
 * What a program passes to a launch by mistake. Only called for a launch that is refused.
 *
 * @module
 */
import { allocationOf } from "../memory/device_buffer.ts";
import { HostBuffer } from "../memory/host_buffer.ts";
import { countOf } from "../support/printing.ts";
import { whatIs } from "../support/validation.ts";

/** How many arguments an error lists. */
const maximumListed = 16;

/**
 * Throws if a launch's options were left out: its first argument has neither a grid nor a block, and is no plain object,
 * whose misspelt names the caller reports.
 */
export function checkLaunchOptions(kernel: string, options: unknown, args: readonly unknown[]): void {
  const isObject = typeof options === "object" && options !== null;
  if (isObject && !Array.isArray(options)) {
    if ("grid" in options || "block" in options) return;
    const prototype = Object.getPrototypeOf(options);
    if ((prototype === null || prototype === Object.prototype) && Object.keys(options).length > 0) return;
  }
  const isShape = [options, args[0]].every((value) => typeof value === "number" || Array.isArray(value));
  const example = isShape ? `{ grid: ${format(options)}, block: ${format(args[0])} }` : "{ grid, block }";
  const given = isObject ? whatIs(options) : describe(options);
  const advice = `give ${example} first, then one argument for each parameter`;
  throw new TypeError(`Cannot launch ${kernel} with ${given} as its options: ${advice}`);
}

/** Throws the error of a launch with a wrong number of arguments. `types` are those of the parameters. */
export function refuseCount(kernel: string, args: readonly unknown[], types: readonly string[]): never {
  const listed = args.slice(0, maximumListed).map(describe).join(", ") + (args.length > maximumListed ? ", ..." : "");
  const given = `${countOf(args.length, "argument")}${args.length === 0 ? "" : ` (${listed})`}`;
  const needed = `${countOf(types.length, "parameter")}${types.length === 0 ? "" : `: ${types.join(", ")}`}`;
  const isSpread = args.length === 1 && Array.isArray(args[0]) && args[0].length === types.length;
  const advice = isSpread ? "; spread the array, as in launch(options, ...args)" : "";
  throw new TypeError(`Cannot launch ${kernel} with ${given}: it has ${needed}${advice}`);
}

/**
 * Advice for an argument of the wrong kind.
 *
 * @param isWord Whether the parameter has 64 bits and may be a pointer.
 */
export function adviceFor(argument: unknown, isWord: boolean): string {
  if (argument === undefined) return "; the variable has no value yet, or the property does not exist";
  if (argument === null) return isWord ? "; 0 is the null pointer" : "";
  if (typeof argument === "string") return "; convert the string with Number";
  if (typeof argument === "bigint") return "; convert the bigint with Number";
  if (typeof argument === "function") return "byteLength" in argument ? "; call the struct with its values" : "";
  if (typeof argument !== "object") return "";
  if ("then" in argument && typeof argument.then === "function") return "; await the promise first";
  if (argument instanceof HostBuffer) {
    return isWord ? "; kernels read device memory: allocate a buffer and copyFrom it" : "";
  }
  if (allocationOf(argument) !== undefined) return "; the arguments may be in another order than the parameters";
  if (!isWord || "address" in argument) return "";
  return Array.isArray(argument)
    ? "; allocate an array and copyFrom a typed array"
    : "; allocate a buffer and copyFrom it";
}

function describe(value: unknown): string {
  if (typeof value === "string") return "a string";
  return typeof value === "bigint" ? `${value}n` : whatIs(value);
}

function format(value: unknown): string {
  return Array.isArray(value) ? `[${value.join(", ")}]` : String(value);
}
