import { PtxError, type VariableDeclaration } from "../../../ptx/syntax.ts";
import { elementLayout, type FunctionName, type Register, SpaceLayout, type Variable } from "./names.ts";
import type { ScalarType } from "./scalar_types.ts";
import type { ResolvedInstruction } from "./resolved_instruction.ts";

/** A result or a parameter of a function. */
export interface CallVariable extends Variable {
  /** Of its elements, where it is an array. */
  readonly type: ScalarType;
}

/** How the results and parameters of a function lie at the start of its frame. */
export interface CallLayout {
  readonly results: readonly CallVariable[];
  readonly parameters: readonly CallVariable[];
  readonly byteLength: number;
}

/** The bytes to which every frame is aligned, and thereby the most that what lies in one can be. */
export const frameAlignment = 16;

/** More than a frame has room for, less than what takes long to copy. */
const maximumPassedBytes = 65536;

/** Lays out what is passed in a call: the same for a function and for a prototype with the same types. */
export function layOutCall(
  { results, parameters }: {
    results: readonly VariableDeclaration[];
    parameters: readonly VariableDeclaration[];
  },
): CallLayout {
  const layout = new SpaceLayout("param", { isInFrame: true });
  const place = (declaration: VariableDeclaration): CallVariable => {
    const { name, space, line, elementCount } = declaration;
    if (space !== "param") {
      throw new PtxError(line, `cannot pass "${name}" in a register: parameters of functions are in ".param" here`);
    }
    if (elementCount === 0) {
      throw new PtxError(line, `cannot pass "${name}": variable numbers of arguments are not supported`);
    }
    const { type, alignment } = elementLayout(declaration);
    if (alignment > frameAlignment) {
      throw new PtxError(line, `cannot pass "${name}": it is aligned to more than ${frameAlignment} bytes`);
    }
    const placed = layout.place(declaration);
    if (layout.byteLength > maximumPassedBytes) {
      throw new PtxError(
        line,
        `cannot pass "${name}": a function takes and returns ${maximumPassedBytes} bytes at most`,
      );
    }
    return { ...placed, type };
  };
  const placed = { results: results.map(place), parameters: parameters.map(place) };
  return { ...placed, byteLength: layout.byteLength };
}

/** What a call names as the function to be called: a function, or what has its address. */
export function callTarget({ operands, line, text }: ResolvedInstruction): FunctionName | Register {
  const target = operands.find(({ kind }) => kind !== "list");
  if (target?.kind === "function" || target?.kind === "register") return target;
  throw new PtxError(line, `cannot compile "${text}": it must name a function, or a register with its address`);
}
