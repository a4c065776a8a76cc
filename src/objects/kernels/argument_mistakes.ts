/**
 * What a program passes to a launch by mistake. Only called for a launch that is refused.
 *
 * @module
 */
import { allocationOf } from "../../memory/device_buffer.ts";
import { HostBuffer } from "../../memory/transfers/host_buffer.ts";
import type { Session } from "../../session.ts";
import { countOf } from "../../support/printing.ts";
import { whatIs } from "../../support/validation.ts";

/** How a buffer becomes text, as in a sum with a number. */
const printedBuffer = /^(?:Device|Host)(?:Array|Buffer) \{/;

/** How many arguments an error lists. */
const maximumListed = 16;

/**
 * Throws if a launch's options were left out: its first argument has neither a grid nor a block, and is no plain object,
 * whose misspelt names the caller reports.
 */
export function checkLaunchOptions(
  kernel: string,
  options: unknown,
  args: readonly unknown[],
  types: readonly string[],
): void {
  const isObject = typeof options === "object" && options !== null;
  if (isObject && !Array.isArray(options)) {
    if ("grid" in options || "block" in options) return;
    const prototype = Object.getPrototypeOf(options);
    if ((prototype === null || prototype === Object.prototype) && Object.keys(options).length > 0) return;
  }
  const given = isObject ? whatIs(options) : describe(options);
  const advice = isLaunchOptions(args.at(-1))
    ? "the options come first, as in launch({ grid, block }, ...args), and yours are the last argument"
    : adviceForOptions(options, args, types);
  throw new TypeError(`Cannot launch ${kernel} with ${given} as its options: ${advice}`);
}

function adviceForOptions(options: unknown, args: readonly unknown[], types: readonly string[]): string {
  // As many values as there are parameters are most likely the kernel's own arguments, the first two as well.
  const isShape = args.length + 1 !== types.length && [options, args[0]].every(isExtents);
  const example = isShape ? `{ grid: ${format(options)}, block: ${format(args[0])} }` : "{ grid, block }";
  const such = isShape ? "" : ", such as { grid: 4, block: 256 }";
  const listed = types.length === 0 ? "" : `: ${types.join(", ")}`;
  return `give ${example} first${such}, then one argument for each parameter${listed}`;
}

function isLaunchOptions(value: unknown): boolean {
  return typeof value === "object" && value !== null && "grid" in value && "block" in value;
}

function isExtents(value: unknown): boolean {
  const extents = Array.isArray(value) ? value : [value];
  return extents.length <= 3 && extents.every((extent) => Number.isInteger(extent) && extent >= 1);
}

/** Throws the error of a launch with a wrong number of arguments. `types` are those of the parameters. */
export function refuseCount(kernel: string, args: readonly unknown[], types: readonly string[]): never {
  const listed = args.slice(0, maximumListed).map(describe).join(", ") + (args.length > maximumListed ? ", ..." : "");
  const given = `${countOf(args.length, "argument")}${args.length === 0 ? "" : ` (${listed})`}`;
  const needed = `${countOf(types.length, "parameter")}${types.length === 0 ? "" : `: ${types.join(", ")}`}`;
  const isSpread = args.length === 1 && Array.isArray(args[0]) && args[0].length === types.length;
  const advice = isSpread
    ? "; spread the array, as in launch(options, ...args)"
    : types.some((type) => type.endsWith(" bytes"))
    ? "; a struct is one argument: const View = struct({ ... }), then View({ ... })"
    : "";
  throw new TypeError(`Cannot launch ${kernel} with ${given}: it has ${needed}${advice}`);
}

/**
 * Advice for an argument of the wrong kind.
 *
 * @param kind Whether the parameter has 64 bits and may be a pointer, or is a struct.
 * @param session The session of the kernel.
 */
export function adviceFor(argument: unknown, kind: "word" | "struct" | "scalar", session: Session): string {
  const isWord = kind === "word";
  if (argument === undefined) return "; the variable has no value yet, or the property does not exist";
  if (argument === null) return isWord ? "; 0 is the null pointer" : "";
  if (typeof argument === "string" && printedBuffer.test(argument)) {
    return "; a buffer plus a number is text: use its subarray, or its address plus a bigint";
  }
  if (typeof argument === "string") return "; convert the string with Number";
  if (typeof argument === "bigint") return "; convert the bigint with Number";
  if (typeof argument === "function") return "byteLength" in argument ? "; call the struct with its values" : "";
  if (typeof argument !== "object") return "";
  if ("then" in argument && typeof argument.then === "function") return "; await the promise first";
  if (argument instanceof HostBuffer || allocationOf(argument) !== undefined) {
    return "; the arguments may be in another order than the parameters";
  }
  if (kind === "struct") return "; describe the fields with struct({ ... }), and call that with their values";
  if (!isWord || "address" in argument) return "";
  if (session.isPageLocked(ArrayBuffer.isView(argument) ? argument.buffer : argument as ArrayBuffer)) {
    return "; it shows page-locked memory: pass the buffer that it is of, or, for a part, that buffer's address plus " +
      "an offset in bytes";
  }
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
