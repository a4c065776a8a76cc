/**
 * Calls of functions, and stack memory. PTX ISA, sections 9.7.12.5 and 9.7.15.
 *
 * A function's results and parameters are at the start of its frame. The caller copies the arguments to the callee's
 * frame, and the results from it.
 *
 * @module
 */
import { fillShadow, loadShadows, storeShadows } from "../checks/memory_shadows.ts";
import { faultKind, functionAddress, shadowOffset } from "../../abi/addresses.ts";
import {
  type CallLayout,
  callTarget,
  type CallVariable,
  frameAlignment,
  layOutCall,
  passedBy,
  passedOperands,
} from "../typing/call_layout.ts";
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { Emit } from "./instruction_form.ts";
import { loadOp, storeOp } from "./memory/memory_instructions.ts";
import type {
  FunctionName,
  ResolvedInstruction,
  ResolvedOperand,
} from "../../../ptx/instructions/resolved_instruction.ts";
import { typeNamed } from "../../../ptx/instructions/scalar_types.ts";

const u64 = typeNamed("u64");
const u32 = typeNamed("u32");

/** The operands of a call, and the layout of the callee's parameters and results. */
export interface CallOperands {
  readonly results: readonly ResolvedOperand[];
  readonly parameters: readonly ResolvedOperand[];
  readonly layout: CallLayout;
}

/**
 * Returns the operands of a call. Reports a compilation error if their number or their sizes do not match the callee's
 * declaration.
 */
export function callOperands(e: FunctionEmitter, i: ResolvedInstruction): CallOperands {
  const { results, parameters } = passedOperands(i);
  const layout = layoutOf(e, i);
  for (
    const [passed, taken, what] of [
      [results, layout.results, "results"],
      [parameters, layout.parameters, "arguments"],
    ] as const
  ) {
    if (passed.length !== taken.length) {
      e.fail(`it has ${passed.length} ${what}, and the function takes ${taken.length}`);
    }
  }
  checkWhole(e, { passed: results, taken: layout.results });
  checkWhole(e, { passed: parameters, taken: layout.parameters });
  return { results, parameters, layout };
}

/**
 * Reports a compilation error if registers are passed for an array parameter of a different size. Such an array must be
 * passed as a `.param` variable.
 */
function checkWhole(
  e: FunctionEmitter,
  { passed, taken }: { passed: readonly ResolvedOperand[]; taken: readonly CallVariable[] },
): void {
  taken.forEach(({ name, type, byteLength }, index) => {
    const operand = passed[index]!;
    if (operand.kind === "variable" || 8 * byteLength === type.bits * elementsOf(operand).length) return;
    e.fail(`"${name}" has ${byteLength} bytes, so a variable in ".param" must be passed`);
  });
}

/** Returns the registers that are passed for an operand: the elements of a vector, or the operand itself. */
function elementsOf(operand: ResolvedOperand): readonly ResolvedOperand[] {
  return operand.kind === "vector" ? operand.elements : [operand];
}

/** Returns the layout of a call's parameters and results. */
function layoutOf(e: FunctionEmitter, i: ResolvedInstruction): CallLayout {
  const declaration = passedBy(i);
  if (declaration === undefined) e.fail("it needs a prototype that states what is passed");
  return layOutCall(declaration);
}

/**
 * Returns the number of bytes that a call passes. For an indirect call, this may be more than the called function
 * expects.
 */
export function passedBytes(i: ResolvedInstruction): number {
  const declaration = passedBy(i);
  return declaration === undefined ? 0 : layOutCall(declaration).byteLength;
}

/** Emits code that pushes the offset in linear memory of the callee's frame. */
export function pushNextFrame(e: FunctionEmitter, frameBytes: number): void {
  if (e.sizes.hasStackPointer) {
    // The alignment applies to the frame's `.local` address, which is the offset from the start of the thread's local
    // memory.
    const { frameAlignment } = e.sizes;
    e.getFixed("stackPointer");
    e.getFixed("local").ops("i32Sub").i32(frameAlignment - 1).ops("i32Add").i32(-frameAlignment).ops("i32And");
    e.getFixed("local").ops("i32Add");
  } else e.getFrame().i32(frameBytes).ops("i32Add");
}

/** Emits code that copies a call's arguments to the callee's frame. */
export function passArguments(e: FunctionEmitter, i: ResolvedInstruction, frameBytes: number): void {
  const { parameters, layout } = callOperands(e, i);
  const frame = e.temporary("i32");
  pushNextFrame(e, frameBytes);
  e.code.set(frame);
  parameters.forEach((argument, index) => {
    const parameter = layout.parameters[index]!;
    if (argument.kind === "variable") {
      checkPassed(e, argument, parameter);
      copyBytes(e, {
        to: () => e.code.get(frame),
        toOffset: parameter.offset,
        from: () => e.getFrame(),
        fromOffset: argument.offset,
        byteLength: parameter.byteLength,
      });
    } else {
      const { type, offset } = parameter;
      const elements = elementsOf(argument);
      elements.forEach((element, index) => {
        e.code.get(frame);
        e.push(element, type);
        e.code.memory(storeOp(type), offset + index * type.bits / 8);
      });
      storeShadows(e, { elements, type, location: frame, distance: offset });
    }
  });
}

/** Emits code that copies a call's results from the callee's frame. */
export function takeResults(e: FunctionEmitter, i: ResolvedInstruction, frameBytes: number): void {
  const { results, layout } = callOperands(e, i);
  if (results.length === 0) return;
  const frame = e.temporary("i32");
  pushNextFrame(e, frameBytes);
  e.code.set(frame);
  results.forEach((wanted, index) => {
    const result = layout.results[index]!;
    if (wanted.kind === "variable") {
      checkPassed(e, wanted, result);
      copyBytes(e, {
        to: () => e.getFrame(),
        toOffset: wanted.offset,
        from: () => e.code.get(frame),
        fromOffset: result.offset,
        byteLength: result.byteLength,
      });
    } else {
      const { type, offset } = result;
      const elements = elementsOf(wanted);
      elements.forEach((element, index) => {
        e.assign(element, type, () => e.code.get(frame).memory(loadOp(type), offset + index * type.bits / 8));
      });
      loadShadows(e, { elements, type, location: frame, distance: offset });
    }
  });
}

/** Reports a compilation error unless a variable can be passed as the given parameter or result. */
export function checkPassed(
  e: FunctionEmitter,
  passed: { name: string; space: string; isInFrame?: boolean; byteLength: number },
  taken: CallVariable,
): void {
  if (passed.space !== "param" || !passed.isInFrame) {
    e.fail(`"${passed.name}" is not a variable of the function in ".param"`);
  }
  if (passed.byteLength !== taken.byteLength) {
    e.fail(`"${passed.name}" has ${passed.byteLength} bytes, and the function takes ${taken.byteLength}`);
  }
}

/** Emits code that copies bytes, and their shadows, from one frame to another. */
function copyBytes(
  { code, shadows }: FunctionEmitter,
  { to, toOffset, from, fromOffset, byteLength }: {
    to: () => unknown;
    toOffset: number;
    from: () => unknown;
    fromOffset: number;
    byteLength: number;
  },
): void {
  let at = 0;
  const copy = (
    bytes: number,
    load: "i64Load" | "i32Load" | "i32Load8U",
    store: "i64Store" | "i32Store" | "i32Store8",
  ) => {
    for (; at + bytes <= byteLength; at += bytes) {
      to();
      from();
      code.memory(load, fromOffset + at).memory(store, toOffset + at);
      if (shadows === undefined) continue;
      to();
      from();
      code.memory(load, shadowOffset + fromOffset + at).memory(store, shadowOffset + toOffset + at);
    }
  };
  copy(8, "i64Load", "i64Store");
  copy(4, "i32Load", "i32Store");
  copy(1, "i32Load8U", "i32Store8");
}

/** A function that may be called by address, and the resume index at which the kernel enters it. */
export interface AddressedFunction {
  readonly name: FunctionName;
  readonly resumeIndex: number;
}

/**
 * Emits a read of the register with the target's address before an indirect call, so that liveness analysis sees the
 * use. The code that compares the address is emitted later, when all functions are known.
 */
export function readTarget(e: FunctionEmitter, i: ResolvedInstruction): void {
  const target = callTarget(i);
  if (target.kind === "function") return;
  e.shadows?.require(target, "call target");
  e.push(target, u64);
  e.code.ops("drop");
}

/** The locals of an indirect call. */
export interface IndirectCall {
  /** The i64 local with the address of the target. */
  readonly address: number;
  /** The i32 local with the encoded source location at which a fault would be reported. */
  readonly place: number;
}

/** Emits code that sets the locals of an indirect call: the target's address and the call's encoded source location. */
export function noteTarget(e: FunctionEmitter, i: ResolvedInstruction, { address, place }: IndirectCall): void {
  e.push(callTarget(i), u64);
  e.code.set(address);
  e.code.i32(e.place()).set(place);
}

/**
 * Emits code that finds the function with the given address, and sets the resume index to the function's resume index.
 * The code faults if no function has the address.
 */
export function chooseFunction(
  e: FunctionEmitter,
  { address, place }: IndirectCall,
  functions: readonly AddressedFunction[],
): void {
  e.code.block();
  for (const { name, resumeIndex } of functions) {
    e.code.get(address).i64(functionAddress(name.index)).ops("i64Eq").if().i32(resumeIndex);
    e.setFixed("resumeIndex").br(1).end();
  }
  e.code.i32(faultKind.invalidFunction).get(address).get(place);
  e.pushThread();
  e.callHelper("fault").ops("unreachable").end();
}

/**
 * Emits code for `alloca`, which allocates `.local` memory and returns the memory's address. The memory is freed when
 * the function returns.
 */
export const allocateOnStack: Emit = (e, i) => {
  const [destination, size, alignment] = i.operands;
  const bytes = alignment === undefined
    ? 8n
    : alignment.kind === "integer"
    ? alignment.value
    : e.fail("its alignment must be a literal");
  if (bytes < 1n || (bytes & (bytes - 1n)) !== 0n) e.fail("its alignment must be a power of two");
  if (bytes > BigInt(frameAlignment)) e.refuse(`an alignment of more than ${frameAlignment} bytes is not supported`);
  const { code } = e;
  const address = e.temporary("i32"), end = e.temporary("i64");
  e.shadows?.require(size, "size");
  e.getFixed("stackPointer").i32(Number(bytes) - 1).ops("i32Add").i32(-Number(bytes)).ops("i32And").set(address);
  code.get(address).ops("i64ExtendI32U");
  e.push(size, i.type);
  if (i.type.bits === 32) code.ops("i64ExtendI32U");
  code.ops("i64Add").set(end);
  // The end address may wrap around. In that case the requested size exceeds the entire memory, so this is a stack
  // overflow too.
  code.get(end).get(address).ops("i64ExtendI32U", "i64LtU").get(end);
  e.getFixed("local").ops("i64ExtendI32U").i64(BigInt(e.sizes.local)).ops("i64Add", "i64GtU", "i32Or").if();
  faultStack(e, e.line);
  code.end().get(end).ops("i32WrapI64");
  e.setFixed("stackPointer");
  if (e.shadows !== undefined) {
    fillShadow(code.get(address), 0, () => code.get(end).ops("i32WrapI64").get(address).ops("i32Sub"));
  }
  e.assign(destination, i.type, () => {
    code.get(address);
    e.getFixed("local").ops("i32Sub");
    if (i.type.bits === 64) code.ops("i64ExtendI32U");
  });
};

/** Emits code that reports a stack overflow as a fault. */
export function faultStack(e: FunctionEmitter, line: number): void {
  e.code.i32(faultKind.stackOverflow).i64(0n);
  e.pushPlace({ line });
  e.callHelper("fault").ops("unreachable");
}

/** Emits code for `stacksave`. */
export const saveStack: Emit = (e, i) => {
  e.assign(i.operands[0], i.type, () => {
    e.getFixed("stackPointer");
    e.getFixed("local").ops("i32Sub");
    if (i.type.bits === 64) e.code.ops("i64ExtendI32U");
  });
};

/**
 * Emits code for `stackrestore`, which sets the stack pointer. The stack can only shrink, and not below the function's
 * own frame.
 */
export const restoreStack: Emit = (e, i) => {
  const { code } = e;
  const stackPointer = e.temporary("i32");
  e.push(i.operands[0], i.type.bits === 64 ? u64 : u32);
  if (i.type.bits === 64) code.ops("i32WrapI64");
  e.getFixed("local").ops("i32Add").set(stackPointer);
  e.getFixed("stackPointer").get(stackPointer);
  e.getFixed("stackPointer").get(stackPointer).ops("i32LtU", "select").set(stackPointer);
  e.getFrame().get(stackPointer);
  e.getFrame().get(stackPointer).ops("i32GtU", "select");
  e.setFixed("stackPointer");
};
