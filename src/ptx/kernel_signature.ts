import { parseKernelHeads } from "./parsing/parser.ts";
import { type FunctionDeclaration, PtxError, type VariableDeclaration } from "./syntax.ts";

/** The type of a kernel parameter: a scalar's PTX name, or an aggregate's size and alignment in bytes. */
export type ParameterType =
  | "b8"
  | "b16"
  | "b32"
  | "b64"
  | "u8"
  | "u16"
  | "u32"
  | "u64"
  | "s8"
  | "s16"
  | "s32"
  | "s64"
  | "f16"
  | "f32"
  | "f64"
  | { readonly byteLength: number; readonly alignment: number };

/** A kernel parameter, and its position in the packed parameters. */
export interface KernelParameter {
  readonly type: ParameterType;
  /** The offset from the start of the packed parameters, in bytes. */
  readonly offset: number;
  readonly byteLength: number;
  readonly alignment: number;
  /** Whether the parameter is known to be a pointer, rather than an integer of the same size. */
  readonly isPointer?: true;
  /**
   * Whether only the size and offset are known, as for a cubin: `type` then has that size, and the largest alignment up
   * to 16 bytes that the size and offset allow.
   */
  readonly isUntyped?: true;
  /**
   * Whether the type distinguishes signed from unsigned integers. Types from PTX do not: compilers write "u32" for an
   * int, too.
   */
  readonly isExact?: true;
}

/** A kernel's name and parameter layout, as required to launch the kernel. */
export interface KernelSignature {
  readonly name: string;
  readonly parameters: readonly KernelParameter[];
  /** The size of the packed parameters, without padding after the last one, in bytes. */
  readonly parameterBytes: number;
}

/** The size in bytes of each scalar {@linkcode ParameterType}. */
export const scalarBytes: Readonly<Record<string, number>> = {
  b8: 1,
  u8: 1,
  s8: 1,
  b16: 2,
  u16: 2,
  s16: 2,
  f16: 2,
  b32: 4,
  u32: 4,
  s32: 4,
  f32: 4,
  b64: 8,
  u64: 8,
  s64: 8,
  f64: 8,
};
/** The size in bytes of each PTX parameter type that {@linkcode ParameterType} has no name for. */
const otherBytes: Readonly<Record<string, number>> = {
  bf16: 2,
  f16x2: 4,
  bf16x2: 4,
  b128: 16,
  texref: 8,
  samplerref: 8,
  surfref: 8,
};
/** The maximum size of a kernel's parameters on any device, in bytes: 32764 since PTX 8.1. */
export const maximumParameterBytes: number = 32764;

/**
 * Returns the signatures of the kernels that PTX text defines, in order.
 *
 * Skips the bodies of functions, so the PTX may be of any version. Throws {@linkcode PtxError} if the declaration of a
 * kernel cannot be parsed or braces do not match.
 *
 * @example
 * ```ts
 * import { kernelSignatures } from "./kernel_signature.ts";
 * import { ptx } from "../../kernels/saxpy.ts";
 *
 * const [saxpy] = kernelSignatures(ptx);
 * console.log(saxpy?.parameters.map((parameter) => parameter.type)); // [ "u32", "f32", "u64", "u64" ]
 * ```
 */
export function kernelSignatures(ptx: string): KernelSignature[] {
  const signatures = parseKernelHeads(ptx).map(kernelSignature);
  const names = new Set<string>();
  for (const { name } of signatures) {
    if (names.has(name)) throw new PtxError(1, `cannot tell two kernels apart: both are named "${name}"`);
    names.add(name);
  }
  return signatures;
}

/**
 * Returns the signature of a kernel. Throws {@linkcode PtxError} if a parameter is invalid, or the parameters are too
 * large.
 */
export function kernelSignature(kernel: FunctionDeclaration): KernelSignature {
  const signature = placeParameters(kernel.name, kernel.parameters.map(variableLayout));
  if (signature.parameterBytes > maximumParameterBytes) {
    throw new PtxError(
      kernel.line,
      `cannot pass ${signature.parameterBytes} bytes of parameters to "${kernel.name}": ` +
        `the maximum is ${maximumParameterBytes}`,
    );
  }
  return signature;
}

/**
 * Returns the signature of a kernel with the given parameter types, which must be valid. Used for kernels without PTX.
 */
export function layoutParameters(name: string, types: readonly ParameterType[]): KernelSignature {
  const layouts = types.map((type) => {
    if (typeof type === "object") return { type, byteLength: type.byteLength, alignment: type.alignment };
    const byteLength = scalarBytes[type]!;
    return { type, byteLength, alignment: byteLength };
  });
  return placeParameters(name, layouts);
}

/** Returns the signature of a kernel if only the offsets and sizes of its parameters are known, as for a cubin. */
export function untypedSignature(
  name: string,
  places: readonly { readonly offset: number; readonly byteLength: number }[],
): KernelSignature {
  const parameters = places.map(({ offset, byteLength }): KernelParameter => {
    let alignment = 1;
    while (alignment < 16 && (offset | byteLength) % (2 * alignment) === 0) alignment *= 2;
    return { type: { byteLength, alignment }, offset, byteLength, alignment, isUntyped: true };
  });
  const last = parameters.at(-1);
  return { name, parameters, parameterBytes: last === undefined ? 0 : last.offset + last.byteLength };
}

type ParameterLayout = Omit<KernelParameter, "offset">;

/** Lays out parameters as in a C struct: each parameter begins at the next multiple of its alignment. */
function placeParameters(name: string, layouts: readonly ParameterLayout[]): KernelSignature {
  let end = 0;
  const parameters = layouts.map((layout) => {
    const offset = Math.ceil(end / layout.alignment) * layout.alignment;
    end = offset + layout.byteLength;
    return { ...layout, offset };
  });
  return { name, parameters, parameterBytes: end };
}

function variableLayout(variable: VariableDeclaration): ParameterLayout {
  const elementBytes = scalarBytes[variable.type] ?? otherBytes[variable.type];
  if (elementBytes === undefined || variable.space !== "param") {
    throw new PtxError(
      variable.line,
      `cannot pass "${variable.name}" to a kernel as ".${variable.space} .${variable.type}"`,
    );
  }
  if (variable.elementCount === 0) {
    throw new PtxError(variable.line, `cannot pass "${variable.name}": an array parameter needs a length`);
  }
  const byteLength = elementBytes * variable.vectorLength * (variable.elementCount ?? 1);
  const alignment = variable.alignment ?? elementBytes * variable.vectorLength;
  const isScalar = variable.elementCount === undefined && variable.vectorLength === 1 && variable.type in scalarBytes;
  return {
    type: isScalar ? variable.type as ParameterType : { byteLength, alignment },
    byteLength,
    alignment,
    ...(variable.isPointer && isScalar && byteLength === 8 ? { isPointer: true } : {}),
  };
}
