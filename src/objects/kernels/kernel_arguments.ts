/**
 * The arguments of kernels: a writer for each parameter, and advice for arguments that it refuses.
 *
 * @module
 */
import { noteHostRead } from "../../sanitizer/notifications.ts";
import type { Allocation } from "../../memory/allocation.ts";
import { CudaArray } from "../../memory/arrays/cuda_array.ts";
import { CudaMipmappedArray } from "../../memory/arrays/mipmapped_array.ts";
import { allocationOf, type DeviceBuffer } from "../../memory/device_buffer.ts";
import { allocationOfRows, PitchedArray } from "../../memory/pitched_array.ts";
import { HostBuffer, sessionOfHost } from "../../memory/transfers/host_buffer.ts";
import { layoutOfBytes } from "../structs/struct.ts";
import { stateOfSurface } from "../textures/cuda_surface.ts";
import { type KernelObjectState, stateOfTexture } from "../textures/cuda_texture.ts";
import type { ParameterType } from "../../ptx/kernel_signature.ts";
import type { Session } from "../../session.ts";
import { errorOfAnotherCuda, whatIs } from "../../support/validation.ts";
import { countOf } from "../../support/printing.ts";
import { bytesOfTensorMap, TensorMap } from "./tensor_map.ts";
import { TypeError } from "../../support/program_errors.ts";

/** A `CudaTexture` or a `CudaSurface`, whose handle a kernel gets. */
export type TextureArgument =
  | { readonly unsafeHandle: bigint; readonly source: object }
  | { readonly unsafeHandle: bigint; readonly array: object };

/**
 * An argument of a kernel: an object with an address for a pointer, such as a buffer; a texture or surface; a number,
 * bigint or boolean for a scalar; a view of exactly the right size for an aggregate; a tensor map for a `CUtensorMap`.
 */
export type KernelArgument =
  | { readonly address: bigint }
  | TextureArgument
  | number
  | bigint
  | boolean
  | ArrayBufferView
  | TensorMap;

/** The reason why an argument is refused. */
export interface ArgumentRefusal {
  /** Whether the argument has a valid type, but a value out of range. */
  readonly isRangeError: boolean;
  /** The requirement that the argument does not meet, such as "it takes a number". */
  readonly reason: string;
}

/** Writes an argument at its offset in the packed parameters. Returns the refusal if the argument does not fit. */
export type ParameterWriter = (view: DataView, argument: KernelArgument) => ArgumentRefusal | undefined;

type Aggregate = Exclude<ParameterType, string>;

/** A parameter of a kernel. */
export interface Parameter {
  readonly type: ParameterType;
  /** The parameter's offset in the packed parameters, in bytes. */
  readonly offset: number;
  readonly isPointer?: true;
  readonly isExact?: true;
  readonly isUntyped?: true;
}

/**
 * Returns the writers of a kernel's parameters. `buffers` gets an element for each parameter that accepts a buffer: the
 * writers store the argument's allocation in it, or undefined if the argument is not a buffer of device memory.
 * `session` is the kernel's session. The writers append the textures among the arguments to `objects`.
 */
export function writersOf(
  parameters: readonly Parameter[],
  buffers: (Allocation | undefined)[],
  session: Session,
  objects: KernelObjectState[],
): readonly ParameterWriter[] {
  const places = { buffers, objects, session };
  return parameters.map((parameter) => {
    const { type, offset, isUntyped } = parameter;
    if (typeof type === "object") {
      return isUntyped ? untypedWriter(parameter, type, places) : aggregateWriter(type, offset);
    }
    const bits = Number(type.slice(1));
    if (type.startsWith("f")) return floatWriter(bits, offset);
    return bits === 64 ? wordWriter(parameter, places) : integerWriter(parameter, bits);
  });
}

/** Where writers store what a launch uses, and the session that it must belong to. */
interface ArgumentPlaces {
  readonly buffers: (Allocation | undefined)[];
  readonly objects: KernelObjectState[];
  readonly session: Session;
}

/** Whether a parameter accepts buffers and addresses: the writer of such a parameter has an element of `buffers`. */
export function takesAddress({ type, isUntyped }: Parameter): boolean {
  if (typeof type === "object") return isUntyped === true && type.byteLength === 8;
  return type.slice(1) === "64" && type !== "f64";
}

function wrongKind(reason: string): ArgumentRefusal {
  return { isRangeError: false, reason };
}

function outOfRange(reason: string): ArgumentRefusal {
  return { isRangeError: true, reason };
}

function aggregateWriter({ byteLength, alignment }: Aggregate, offset: number): ParameterWriter {
  return (view, given) => {
    const argument = bytesOfTensorMap(given) ?? given;
    if (!ArrayBuffer.isView(argument)) {
      return wrongKind(`it takes a struct's value, a typed array or a DataView of ${byteLength} bytes`);
    }
    const layout = layoutOfBytes(argument);
    if (argument.byteLength !== byteLength || (layout !== undefined && layout.alignment !== alignment)) {
      const given = argument.byteLength;
      if (layout === undefined) return outOfRange(`it takes ${byteLength} bytes, the view has ${given}`);
      return outOfRange(
        `it takes ${byteLength} bytes aligned to ${alignment}, the struct has ${given} bytes aligned to ` +
          layout.alignment,
      );
    }
    copyAggregate(argument, view, offset);
  };
}

function copyAggregate(argument: ArrayBufferView, view: DataView, offset: number): void {
  noteHostRead(argument, "launch");
  const bytes = new Uint8Array(argument.buffer, argument.byteOffset, argument.byteLength);
  new Uint8Array(view.buffer, view.byteOffset + offset, bytes.length).set(bytes);
}

/**
 * Returns the writer of a parameter of which only the size is known. The parameter accepts arguments with a known size,
 * but not a number, which could be a float or an integer.
 */
function untypedWriter(
  parameter: Parameter,
  { byteLength }: Aggregate,
  places: ArgumentPlaces,
): ParameterWriter {
  const { buffers } = places;
  const index = buffers.length;
  const word = byteLength === 8 ? wordWriter({ ...parameter, type: "b64" }, places) : undefined;
  const byte = byteLength === 1 ? integerWriter({ ...parameter, type: "b8" }, 8) : undefined;
  const also = word === undefined ? "" : "a buffer, a bigint, ";
  const needsType = wrongKind(
    `its image says only that it has ${byteLength} bytes: give the kernel's "parameters", as in ` +
      'module.kernel(name, { parameters: ["f32", "pointer"] })',
  );
  return (view, given) => {
    const argument = bytesOfTensorMap(given) ?? given;
    if (ArrayBuffer.isView(argument)) {
      if (argument.byteLength !== byteLength) {
        return outOfRange(`it takes ${byteLength} bytes, the view has ${argument.byteLength}`);
      }
      copyAggregate(argument, view, parameter.offset);
      // Clears the allocation that an earlier launch may have stored for this parameter.
      if (word !== undefined) buffers[index] = undefined;
      return undefined;
    }
    if (byte !== undefined) return byte(view, argument);
    if (typeof argument === "number") return byteLength <= 8 ? needsType : wrongKind(takes(byteLength, also));
    if (word !== undefined && typeof argument !== "boolean") return word(view, argument);
    return wrongKind(takes(byteLength, also));
  };
}

function takes(byteLength: number, also: string): string {
  return `it takes ${also}a struct's value, a typed array or a DataView of ${byteLength} bytes`;
}

function floatWriter(bits: number, offset: number): ParameterWriter {
  return (view, argument) => {
    if (typeof argument !== "number") return wrongKind("it takes a number");
    if (bits === 64) view.setFloat64(offset, argument, true);
    else if (bits === 32) view.setFloat32(offset, argument, true);
    else view.setFloat16(offset, argument, true);
  };
}

/**
 * Returns the range of integers that a parameter accepts. Unless the type is exact, this includes signed and unsigned
 * integers, because compilers declare both with the same PTX type.
 */
function rangeOf({ type, isExact, isPointer }: Parameter, bits: number): [minimum: bigint, maximum: bigint] {
  const sign = isPointer ? "u" : isExact ? String(type)[0] : "b";
  const minimum = sign === "u" ? 0n : -(2n ** BigInt(bits - 1));
  const maximum = 2n ** BigInt(sign === "s" ? bits - 1 : bits) - 1n;
  return [minimum, maximum];
}

function integerWriter(parameter: Parameter, bits: number): ParameterWriter {
  const { offset } = parameter;
  const [minimum, maximum] = rangeOf(parameter, bits).map(Number) as [number, number];
  return (view, argument) => {
    const value = typeof argument === "bigint" || typeof argument === "boolean" ? Number(argument) : argument;
    if (typeof value !== "number") return wrongKind("it takes a whole number");
    if (!Number.isInteger(value)) return outOfRange("it takes a whole number");
    if (value < minimum || value > maximum) return outOfRange(`it takes a whole number from ${minimum} to ${maximum}`);
    if (bits === 32) view.setUint32(offset, value, true);
    else if (bits === 16) view.setUint16(offset, value, true);
    else view.setUint8(offset, value);
  };
}

/** The smallest address that memory can have. */
const firstAddress = 4096n;
const invalidAddress = "no memory has an address from 1 to 4095; 0 is the null pointer";

/** Returns the writer of a 64-bit parameter, which is a pointer or an integer. */
function wordWriter(parameter: Parameter, { buffers, objects, session }: ArgumentPlaces): ParameterWriter {
  const { offset, isPointer } = parameter;
  const [minimum, maximum] = rangeOf(parameter, 64);
  // The minimum for values other than 0, which is always valid. A single comparison with it excludes small addresses or
  // negative numbers.
  const least = isPointer ? firstAddress : minimum;
  const leastNumber = Number(least);
  const index = buffers.push(undefined) - 1;
  const refuse = (value: number | bigint): ArgumentRefusal => {
    if (isPointer) {
      return outOfRange(value > 0 && value < firstAddress ? invalidAddress : "it takes a buffer or an address");
    }
    return outOfRange(`it takes a whole number from ${minimum} to ${maximum}`);
  };
  return (view, argument) => {
    const allocation = allocationOf(argument) ?? allocationOfRows(argument);
    buffers[index] = allocation;
    if (allocation !== undefined) {
      // The address of a buffer comes from the driver and needs no check.
      view.setBigUint64(offset, (argument as DeviceBuffer | PitchedArray).address, true);
    } else if (typeof argument === "object" && argument !== null && "address" in argument) {
      const host = argument instanceof PitchedArray ? argument.buffer : argument;
      if (host instanceof HostBuffer && sessionOfHost(host) !== session) {
        throw errorOfAnotherCuda("pass a host buffer");
      }
      const { address } = argument;
      if (typeof address !== "bigint") return wrongKind("its address is not a bigint");
      if (BigInt.asUintN(64, address) !== address) return outOfRange("its address does not fit 64 bits");
      if (address < firstAddress && address !== 0n) return outOfRange(`its address is ${address}; ${invalidAddress}`);
      view.setBigUint64(offset, address, true);
    } else if (typeof argument === "bigint") {
      if ((argument < least && argument !== 0n) || argument > maximum) return refuse(argument);
      view.setBigUint64(offset, argument, true);
    } else {
      if (typeof argument !== "number" && typeof argument !== "boolean") {
        const object = stateOfTexture(argument) ?? stateOfSurface(argument);
        if (object !== undefined) {
          if (object.session !== session) throw errorOfAnotherCuda("pass a texture or a surface");
          view.setBigUint64(offset, object.handle, true);
          objects.push(object);
          return undefined;
        }
        return wrongKind(
          isPointer ? "it takes a buffer or an address" : "it takes a buffer, a bigint or a whole number",
        );
      }
      const value = Number(argument);
      if (!Number.isInteger(value)) return outOfRange("it takes a buffer, a bigint or a whole number");
      if (!Number.isSafeInteger(value)) return outOfRange("give a bigint for a number beyond 2 ** 53");
      if (value < leastNumber && value !== 0) return refuse(value);
      view.setInt32(offset, value % 2 ** 32, true);
      view.setInt32(offset + 4, Math.floor(value / 2 ** 32), true);
    }
  };
}

/** Matches the string that a buffer is converted to, for example when a program adds a number to the buffer. */
const printedBuffer = /^(?:Device|Host|Pitched)(?:Array|Buffer) \{/;

/** Maximum number of arguments that an error lists. */
const maximumListed = 16;

/**
 * Throws if a program has left out a launch's options, so that the first argument has neither a grid nor a block.
 * Accepts any plain object that is not empty: the caller reports misspelled option names in it.
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
  // If the caller passed as many values as the kernel has parameters, the first two values are most likely not a grid
  // and a block, but arguments.
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

/**
 * Throws an error that reports a launch with the wrong number of arguments. `types` are the types of the kernel's
 * parameters.
 */
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
 * Returns advice for an argument of the wrong kind.
 *
 * @param kind "word" for a parameter of 64 bits, which may be a pointer; "struct" or "scalar" for others
 * @param session the kernel's session
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
  if (argument instanceof HostBuffer || argument instanceof PitchedArray || allocationOf(argument) !== undefined) {
    return "; the arguments may be in another order than the parameters";
  }
  if (argument instanceof CudaArray || argument instanceof CudaMipmappedArray) {
    return "; an array has no address: pass a texture or a surface of it";
  }
  if (argument instanceof TensorMap) {
    return "; a tensor map is a parameter of 128 bytes, const __grid_constant__ CUtensorMap";
  }
  if (kind === "struct") return "; describe the fields with struct({ ... }), and call that with their values";
  if (!isWord || "address" in argument) return "";
  if (session.isPageLocked(ArrayBuffer.isView(argument) ? argument : new Uint8Array(argument as ArrayBuffer))) {
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
