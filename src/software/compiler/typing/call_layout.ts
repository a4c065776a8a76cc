/**
 * Lays out the parameters and results of calls, and computes the stack size of a kernel and the functions that it
 * calls.
 *
 * @module
 */
import { PtxError, type VariableDeclaration } from "../../../ptx/syntax.ts";
import { checkVector, elementLayout, type RegisterType, SpaceLayout } from "../../../ptx/instructions/names.ts";
import type {
  FunctionName,
  Prototype,
  Register,
  ResolvedInstruction,
  ResolvedOperand,
  Variable,
} from "../../../ptx/instructions/resolved_instruction.ts";
import { type ScalarType, scalarTypes } from "../../../ptx/instructions/scalar_types.ts";
import { predicateNumber } from "./passed_registers.ts";
import { UnsupportedPtxError } from "../../../ptx/instruction_support.ts";
import type { ResolvedFunction, ResolvedKernel } from "./resolver.ts";

/** A result or a parameter of a function. */
export interface CallVariable extends Variable {
  /** The type. For an array, the type of its elements. A predicate is passed as a `u32` that is 0 or 1. */
  readonly type: ScalarType;
  /** The type of the registers, if the function declares the variable as a register or a vector of registers. */
  readonly registers?: RegisterType;
}

/** The layout of a function's results and parameters at the start of its frame. */
export interface CallLayout {
  readonly results: readonly CallVariable[];
  readonly parameters: readonly CallVariable[];
  readonly byteLength: number;
  /** The largest alignment of a result or a parameter, in bytes. */
  readonly alignment: number;
}

/**
 * The minimum alignment of stack frames, in bytes. All frames of a kernel have the same alignment: the maximum over its
 * functions.
 */
export const frameAlignment = 16;

/** The maximum total size of a function's parameters and results, in bytes. Small enough to copy quickly. */
export const maximumPassedBytes = 65536;

/** Lays out the results and parameters of a function or a prototype. The layout depends only on their types. */
export function layOutCall(
  { results, parameters }: {
    results: readonly VariableDeclaration[];
    parameters: readonly VariableDeclaration[];
  },
): CallLayout {
  const layout = new SpaceLayout("param", { isInFrame: true });
  const place = (declaration: VariableDeclaration): CallVariable => {
    const { name, space, line, elementCount } = declaration;
    if (elementCount === 0) {
      throw new UnsupportedPtxError(line, `cannot pass "${name}": variadic parameters are not supported`);
    }
    const registers = space === "reg" ? registersOf(declaration) : undefined;
    const passed = isPredicateRegister(declaration) ? { ...declaration, type: predicateNumber.name } : declaration;
    const type = scalarTypes.get(passed.type) ?? elementLayout(passed).type;
    const placed = layout.place({ ...passed, space: "param" });
    if (layout.byteLength > maximumPassedBytes) {
      throw new UnsupportedPtxError(
        line,
        `cannot pass "${name}": a function takes and returns at most ${maximumPassedBytes} bytes`,
      );
    }
    return registers === undefined ? { ...placed, type } : { ...placed, type, registers };
  };
  const placed = { results: results.map(place), parameters: parameters.map(place) };
  return { ...placed, byteLength: layout.byteLength, alignment: layout.alignment };
}

/** Returns the type of the registers that hold a result or a parameter in `.reg`. */
function registersOf({ name, type: typeName, vectorLength, elementCount, line }: VariableDeclaration): RegisterType {
  if (elementCount !== undefined) throw new PtxError(line, `cannot pass "${name}" in registers: it is an array`);
  const type = typeName === "b128" ? typeName : scalarTypes.get(typeName);
  if (type === undefined) {
    throw new PtxError(line, `cannot pass "${name}" in a register: there are none of type ".${typeName}"`);
  }
  checkVector(type, { vectorLength, line });
  return { type, vectorLength };
}

/** Whether a result or a parameter is a predicate. */
export function isPredicateRegister({ space, type, vectorLength }: VariableDeclaration): boolean {
  return space === "reg" && type === "pred" && vectorLength === 1;
}

/** Returns the declaration or prototype that specifies how a call passes its arguments. */
export function passedBy(
  call: ResolvedInstruction,
): FunctionName["declaration"] | Prototype["declaration"] | undefined {
  const target = callTarget(call);
  if (target.kind === "function") return target.declaration;
  return call.operands.find((operand): operand is Prototype => operand.kind === "prototype")?.declaration;
}

/** The lists of a call's operands. */
export interface PassedOperands {
  readonly results: readonly ResolvedOperand[];
  readonly parameters: readonly ResolvedOperand[];
}

/** Returns the results and the arguments among the operands of a call. */
export function passedOperands({ operands }: ResolvedInstruction): PassedOperands {
  const lists = operands.filter((operand) => operand.kind === "list");
  const isResultFirst = operands[0]?.kind === "list";
  return {
    results: isResultFirst ? lists[0]!.elements : [],
    parameters: lists[isResultFirst ? 1 : 0]?.elements ?? [],
  };
}

/** Returns the target of a call: a function, or a register that holds the address of one. */
export function callTarget({ operands, line, text }: ResolvedInstruction): FunctionName | Register {
  const target = operands.find(({ kind }) => kind !== "list");
  if (target?.kind === "function" || target?.kind === "register") return target;
  throw new PtxError(line, `cannot compile "${text}": it must name a function, or a register with its address`);
}

/** The maximum stack size of a kernel and the functions that it calls. */
export interface StackDepth {
  /** The size in bytes. If `isUnbounded` is true, the size does not include recursive calls. */
  readonly byteLength: number;
  /** Whether functions may be recursive, so that the size has no bound. */
  readonly isUnbounded: boolean;
}

/**
 * A pseudo-function that stands for the target of indirect calls. Its callees are all functions whose address is taken,
 * so that they need not be listed for every indirect call.
 */
const anyAddressed = "any addressed function";
type Callee = ResolvedFunction | typeof anyAddressed;

/**
 * Computes the maximum stack size over all chains of calls from a kernel. `bytesOf` returns the bytes that one function
 * needs.
 */
export function stackDepth(
  { kernel, callees }: ResolvedKernel,
  { bytesOf, addressed }: { bytesOf: (resolved: ResolvedFunction) => number; addressed: ReadonlySet<FunctionName> },
): StackDepth {
  const depths = new Map<Callee, number>();
  const active = new Set<Callee>();
  let isUnbounded = false;
  const enter = (resolved: Callee) => ({ resolved, called: calleesOf(resolved, { callees, addressed }) });
  // Iterative, because a chain of calls may be as long as a module has functions.
  const path = [enter(kernel)];
  for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
    const { resolved, called } = top;
    if (!depths.has(resolved) && !active.has(resolved)) {
      active.add(resolved);
      for (const callee of called) {
        if (active.has(callee)) isUnbounded = true;
        else if (!depths.has(callee)) path.push(enter(callee));
      }
    } else {
      path.pop();
      if (!active.delete(resolved)) continue;
      let deepest = 0;
      for (const callee of called) deepest = Math.max(deepest, depths.get(callee) ?? 0);
      depths.set(resolved, (resolved === anyAddressed ? 0 : bytesOf(resolved)) + deepest);
    }
  }
  return { byteLength: depths.get(kernel)!, isUnbounded };
}

function calleesOf(
  caller: Callee,
  { callees, addressed }: { callees: ResolvedKernel["callees"]; addressed: ReadonlySet<FunctionName> },
): Set<Callee> {
  const called = new Set<Callee>();
  const add = (name: FunctionName) => {
    const callee = callees.get(name);
    if (callee !== undefined) called.add(callee);
  };
  if (caller === anyAddressed) {
    addressed.forEach(add);
    return called;
  }
  for (const item of caller.items) {
    if (item.kind === "label" || item.form.flow !== "call") continue;
    const target = callTarget(item);
    if (target.kind === "function") add(target);
    else called.add(anyAddressed);
  }
  return called;
}
