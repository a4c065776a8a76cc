/**
 * The types of kernel parameters: as a program states them, and as the TypeScript types that `poolpass bind` generates.
 *
 * @module
 */
import {
  type KernelParameter,
  type KernelSignature,
  layoutParameters,
  maximumParameterBytes,
  type ParameterType,
  scalarBytes,
} from "../../ptx/kernel_signature.ts";
import { didYouMean, shown, type TypedArray, type TypedArrayConstructor, whatIs } from "../../support/validation.ts";
import type { KernelArgument } from "./kernel_arguments.ts";
import { RangeError, TypeError } from "../../support/program_errors.ts";

/** A parameter type stated by a program. Includes pointers, which PTX does not distinguish from 64-bit integers. */
export type StatedParameterType = ParameterType | "pointer";

/**
 * Checks the types, and returns the signature of a kernel with parameters of these types.
 *
 * @param known The signature in the module's PTX, if there is one. The types must be compatible with it.
 */
export function signatureFromTypes(
  name: string,
  types: readonly StatedParameterType[],
  known: KernelSignature | undefined,
): KernelSignature {
  if (!Array.isArray(types)) {
    throw new TypeError(`Cannot use ${whatIs(types)} as the parameters of ${name}: give an array of their types`);
  }
  for (const [index, type] of types.entries()) checkType(type, `parameter ${index} of ${name}`);
  // Copies the types, because the caller may change its own objects later.
  const copies = types.map(copyOf);
  const layout = layoutParameters(name, copies);
  const parameters = layout.parameters.map((parameter, index) => {
    const declared = known?.parameters[index];
    const isPointer = types[index] === "pointer" || declared?.isPointer;
    return { ...parameter, isExact: true as const, ...(isPointer ? { isPointer: true as const } : {}) };
  });
  const signature = { ...layout, parameters };
  if (signature.parameterBytes > maximumParameterBytes) {
    throw new RangeError(
      `Cannot pass ${signature.parameterBytes} bytes of parameters to ${name}: ${maximumParameterBytes} is the maximum`,
    );
  }
  if (known !== undefined) checkAgainst(known, signature);
  return signature;
}

function checkType(type: StatedParameterType, what: string): void {
  if (typeof type === "string" && (type === "pointer" || Object.hasOwn(scalarBytes, type))) return;
  // A type that `struct` has returned is a function with the properties `byteLength` and `alignment`.
  const isAggregate = typeof type === "object" && type !== null ||
    typeof type === "function" && "byteLength" in type && "alignment" in type;
  if (!isAggregate) {
    const names = [...Object.keys(scalarBytes), "pointer"];
    throw new TypeError(
      `Cannot use ${shown(type)} as the type of ${what}: it must be one of ${names.join(", ")}, a struct, or ` +
        `{ byteLength, alignment }${didYouMean(type, names)}`,
    );
  }
  const { byteLength, alignment } = type;
  if (typeof byteLength !== "number" || typeof alignment !== "number") {
    const given = `byteLength ${whatIs(byteLength)} and alignment ${whatIs(alignment)}`;
    throw new TypeError(`Cannot use ${given} as the type of ${what}: both must be numbers of bytes`);
  }
  if (!Number.isSafeInteger(byteLength) || byteLength < 1) {
    throw new RangeError(
      `Cannot use ${byteLength} as the byteLength of ${what}: it must be a whole number, at least 1`,
    );
  }
  if (!Number.isInteger(Math.log2(alignment)) || alignment < 1) {
    throw new RangeError(`Cannot use ${alignment} as the alignment of ${what}: it must be a power of two`);
  }
}

/** Throws if the types are incompatible with the PTX: the kernel would misread its parameters. */
function checkAgainst(known: KernelSignature, given: KernelSignature): void {
  const { name } = given;
  const [expected, count] = [known.parameters.length, given.parameters.length];
  if (count !== expected) {
    throw new TypeError(`Cannot give ${name} ${count} parameters: its PTX declares ${expected}`);
  }
  for (const [index, parameter] of known.parameters.entries()) {
    if (areCompatible(parameter, given.parameters[index]!)) continue;
    const [declared, stated] = [parameter.type, given.parameters[index]!.type].map(formatAligned);
    throw new TypeError(`Cannot take parameter ${index} of ${name} as ${stated}: its PTX declares ${declared}`);
  }
}

/** Throws if the parameters' offsets or sizes according to the stated types differ from those in the kernel's code. */
export function checkPlaces(known: KernelSignature, given: KernelSignature): void {
  const { name } = given;
  const [expected, count] = [known.parameters.length, given.parameters.length];
  if (count !== expected) throw new TypeError(`Cannot give ${name} ${count} parameters: its image has ${expected}`);
  for (const [index, { offset, byteLength }] of known.parameters.entries()) {
    const stated = given.parameters[index]!;
    if (stated.offset === offset && stated.byteLength === byteLength) continue;
    throw new TypeError(
      `Cannot take parameter ${index} of ${name} as ${formatAligned(stated.type)}, at offset ${stated.offset}: ` +
        `its image has ${byteLength} bytes at offset ${offset}`,
    );
  }
}

/**
 * Returns whether two parameters have the same offset, the same size and matching types, and, if they are structs, the
 * same alignment. Untyped bits match any type; a float and an integer do not match.
 */
function areCompatible(known: KernelParameter, given: KernelParameter): boolean {
  const kinds = [kindOf(known.type), kindOf(given.type)];
  const isMixed = kinds.includes("float") && kinds.includes("integer");
  const areStructs = typeof known.type === "object" && typeof given.type === "object";
  const isAligned = !areStructs || known.alignment === given.alignment;
  return known.offset === given.offset && known.byteLength === given.byteLength && !isMixed && isAligned;
}

function kindOf(type: ParameterType): "float" | "integer" | "bits" {
  if (typeof type === "object" || type.startsWith("b")) return "bits";
  return type.startsWith("f") ? "float" : "integer";
}

/** Formats a parameter's type for messages. */
export function formatParameter({ type, isPointer }: KernelParameter): string {
  return isPointer ? "pointer" : formatParameterType(type);
}

/** Formats a type for messages. */
function formatParameterType(type: ParameterType): string {
  return typeof type === "string" ? type : `${type.byteLength} bytes`;
}

/** Like `formatParameterType`, but includes the alignment of an aggregate. */
function formatAligned(type: ParameterType): string {
  return typeof type === "string" ? type : `${formatParameterType(type)} aligned to ${type.alignment}`;
}

function copyOf(type: StatedParameterType): ParameterType {
  if (type === "pointer") return "u64";
  return typeof type === "string" ? type : { byteLength: type.byteLength, alignment: type.alignment };
}

// A symbol instead of a name, so that editors do not suggest a member that does not exist at run time.
declare const kernels: unique symbol;

/** The type of a module's kernels if none is stated: kernels of any name, with any arguments. */
export interface AnyKernels {
  /** The parameters of each kernel, by the kernel's name. */
  readonly [name: string]: readonly KernelArgument[];
}

/**
 * PTX with a type that lists its kernels and their parameters. At run time it is a string. `poolpass bind` generates
 * such types from CUDA C++. From a `Ptx`, `CudaDevice.loadModule` returns a module whose `kernel` accepts only these
 * names, and whose kernels' `launch` accepts only these parameters.
 *
 * `Kernels` maps each kernel's name to a tuple of its parameters: `number` for floats and for integers of up to 32
 * bits, `number | bigint` for 64-bit integers, `boolean | number` for a `bool`, a {@linkcode Pointer}, or a
 * {@linkcode StructArgument}. A type that you write by hand is not compared with the PTX, but a launch checks its
 * arguments against the PTX, as for any other module.
 *
 * @example
 * ```ts
 * import { open, type Pointer, type Ptx } from "./mod.ts";
 * import { ptx as text } from "./kernels/saxpy.ts";
 *
 * const ptx = text as Ptx<{ saxpy: [n: number, a: number, x: Pointer<Float32Array>, y: Pointer<Float32Array>] }>;
 * using cuda = open();
 * const gpu = cuda.device(0);
 * using stream = gpu.createStream();
 * using x = gpu.defaultPool.allocateArray(Float32Array, 1024, stream);
 * using y = gpu.defaultPool.allocateArray(Float32Array, 1024, stream);
 * x.fill(1);
 * y.fill(2);
 * using module = gpu.loadModule(ptx);
 * module.kernel("saxpy").launch({ grid: 4, block: 256, stream }, 1024, 2.5, x, y);
 * console.log((await y.toTypedArray())[0]); // 4.5
 * ```
 */
export type Ptx<Kernels extends { [Name in keyof Kernels]: readonly KernelArgument[] }> =
  & string
  & PtxKernels<Kernels>;

/** The member that {@linkcode Ptx} adds to the type `string`. */
export interface PtxKernels<Kernels> {
  /**
   * Exists for the type checker only.
   *
   * @internal
   */
  readonly [kernels]: Kernels;
}

/**
 * A parameter that is a pointer to elements of a type: `Pointer<Float32Array>` for a `float*`. An argument is a
 * `DeviceArray` of these elements, memory without an element type such as a `DeviceBuffer`, any other object with an
 * `address`, or an address. `Pointer<Int8Array | Uint8Array>`, for a `char*`, accepts arrays of either type, and
 * `Pointer` alone, for a `void*`, accepts arrays of any type. For a pointer to structs, use `Pointer<Uint8Array>`, with
 * the bytes that `Struct.encode` returns. The null pointer is `0n`.
 *
 * @example
 * ```ts
 * import { open, type Pointer } from "./mod.ts";
 *
 * using cuda = open();
 * using stream = cuda.device(0).createStream();
 * using pool = cuda.device(0).createPool();
 * using array = pool.allocateArray(Float32Array, 256, stream);
 * using bytes = pool.allocate(1024, stream);
 * const pointers: Pointer<Float32Array>[] = [array, array.subarray(128), bytes, bytes.address, 0n];
 * console.log(pointers.length); // 5
 * ```
 */
export type Pointer<T extends TypedArray = TypedArray> =
  | { readonly address: bigint; readonly type?: TypedArrayConstructor<T> }
  | bigint;
