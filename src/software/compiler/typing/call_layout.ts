import { PtxError, type VariableDeclaration } from "../../../ptx/syntax.ts";
import { elementLayout, type FunctionName, type Register, SpaceLayout, type Variable } from "./names.ts";
import type { ScalarType } from "./scalar_types.ts";
import type { ResolvedInstruction } from "./resolved_instruction.ts";
import { UnsupportedPtxError } from "./supported_ptx.ts";

/** A result or a parameter of a function. */
export interface CallVariable extends Variable {
  /** The element type, if it is an array. */
  readonly type: ScalarType;
}

/** The layout of a function's results and parameters at the start of its frame. */
export interface CallLayout {
  readonly results: readonly CallVariable[];
  readonly parameters: readonly CallVariable[];
  readonly byteLength: number;
}

/** The alignment of every frame in bytes, and so the largest alignment of anything in a frame. */
export const frameAlignment = 16;

/** More than a frame can hold, and few enough to copy quickly. */
const maximumPassedBytes = 65536;

/** Lays out the results and parameters of a function or a prototype. Equal types give equal layouts. */
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
      throw new UnsupportedPtxError(
        line,
        `cannot pass "${name}" in a register: function parameters must be in ".param"`,
      );
    }
    if (elementCount === 0) {
      throw new UnsupportedPtxError(line, `cannot pass "${name}": variadic parameters are not supported`);
    }
    const { type, alignment } = elementLayout(declaration);
    if (alignment > frameAlignment) {
      throw new UnsupportedPtxError(line, `cannot pass "${name}": it is aligned to more than ${frameAlignment} bytes`);
    }
    const placed = layout.place(declaration);
    if (layout.byteLength > maximumPassedBytes) {
      throw new UnsupportedPtxError(
        line,
        `cannot pass "${name}": a function takes and returns at most ${maximumPassedBytes} bytes`,
      );
    }
    return { ...placed, type };
  };
  const placed = { results: results.map(place), parameters: parameters.map(place) };
  return { ...placed, byteLength: layout.byteLength };
}

/** The target of a call: a function, or a register with the address of one. */
export function callTarget({ operands, line, text }: ResolvedInstruction): FunctionName | Register {
  const target = operands.find(({ kind }) => kind !== "list");
  if (target?.kind === "function" || target?.kind === "register") return target;
  throw new PtxError(line, `cannot compile "${text}": it must name a function, or a register with its address`);
}
