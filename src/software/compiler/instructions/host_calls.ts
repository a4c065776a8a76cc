/**
 * Emits calls of the functions that CUDA's compiler expects the device to provide: `printf`, `assert`, `malloc`,
 * `free` and `cudaGraphSetConditional`.
 *
 * @module
 */
import { shadowOffset } from "../../abi/addresses.ts";
import { shadowStore } from "../checks/memory_shadows.ts";
import { pushSpaces } from "./memory/address_checks.ts";
import { callOperands, checkPassed } from "./call_instructions.ts";
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import type { Emit } from "./instruction_form.ts";
import { constant } from "../webassembly/opcodes.ts";
import { loadOp, storeOp } from "./memory/memory_instructions.ts";
import { callTarget, type CallVariable } from "../typing/call_layout.ts";
import type { ResolvedInstruction } from "../../../ptx/instructions/resolved_instruction.ts";

/** Emits code that pushes the value of a call's argument, which must not be an array. */
function pushArgument(e: FunctionEmitter, i: ResolvedInstruction, index: number): void {
  const { parameters, layout } = callOperands(e, i);
  const argument = parameters[index]!;
  const parameter = layout.parameters[index]!;
  const { type } = parameter;
  if (argument.kind !== "variable") return e.push(argument, type);
  checkPassed(e, argument, parameter);
  e.getFrame().memory(loadOp(type), argument.offset);
}

/**
 * Reports a compilation error unless the declared parameters and result of a called function are integers of the given
 * numbers of bits. A declaration may omit the result.
 */
function checkHostCall(
  e: FunctionEmitter,
  i: ResolvedInstruction,
  { parameters, result }: { parameters: readonly number[]; result?: number },
): void {
  const { layout } = callOperands(e, i);
  const areWhole = [...layout.parameters, ...layout.results].every(({ type, byteLength }) => {
    return type.kind !== "float" && 8 * byteLength === type.bits;
  });
  const bitsOf = (variables: readonly CallVariable[]) => variables.map(({ type }) => type.bits).join();
  const results = bitsOf(layout.results);
  if (!areWhole || bitsOf(layout.parameters) !== parameters.join() || !["", `${result ?? ""}`].includes(results)) {
    e.refuse("its parameters are not those that CUDA declares");
  }
}

/** Emits code that pops the function's result and assigns it to the call's destination, if the call has one. */
function takeResult(e: FunctionEmitter, i: ResolvedInstruction, value: "i32" | "i64"): void {
  const local = e.temporary(value);
  e.code.set(local);
  const { results: [wanted], layout: { results: [result] } } = callOperands(e, i);
  if (wanted === undefined) return;
  if (wanted.kind === "variable") {
    checkPassed(e, wanted, result!);
    e.getFrame().get(local).memory(storeOp(result!.type), wanted.offset);
    if (e.shadows === undefined) return;
    e.getFrame();
    constant(e.code, result!.type, 0).memory(shadowStore(result!.type), shadowOffset + wanted.offset);
  } else {
    e.assign(wanted, result!.type, () => e.code.get(local));
    e.shadows?.clear(wanted);
  }
}

/** Emits code that pushes the index of the block, and the index of the thread in the block. */
function pushThread(e: FunctionEmitter): void {
  for (const name of ["blockX", "blockY", "blockZ", "threadX", "threadY", "threadZ"] as const) e.getFixed(name);
}

/** Emits code for `vprintf(format, arguments)`, which returns the number of arguments printed. */
const print: Emit = (e, i) => {
  checkHostCall(e, i, { parameters: [64, 64], result: 32 });
  pushArgument(e, i, 0);
  pushArgument(e, i, 1);
  e.pushPlace({ operation: "read" });
  pushSpaces(e);
  e.callHelper("print");
  takeResult(e, i, "i32");
};

/** Emits code for `__assertfail(message, file, line, function, characterBytes)`. */
const failAssertion: Emit = (e, i) => {
  checkHostCall(e, i, { parameters: [64, 64, 32, 64, 64] });
  for (const index of [0, 1, 2, 3]) pushArgument(e, i, index);
  pushThread(e);
  e.code.i32(e.line);
  pushSpaces(e);
  e.callHelper("failAssertion").ops("unreachable");
};

/** Emits code for `malloc(size)`, which returns an address that is a multiple of 16. */
const allocate: Emit = (e, i) => {
  checkHostCall(e, i, { parameters: [64], result: 64 });
  pushArgument(e, i, 0);
  e.code.i64(16n);
  e.pushPlace();
  e.getFixed("bounds");
  e.callHelper("allocate");
  takeResult(e, i, "i64");
};

/**
 * Emits code for `__cuda_syscall_aligned_malloc(size, alignment)`, which C++ `new` calls for types with a larger
 * alignment.
 */
const allocateAligned: Emit = (e, i) => {
  checkHostCall(e, i, { parameters: [64, 64], result: 64 });
  pushArgument(e, i, 0);
  pushArgument(e, i, 1);
  e.pushPlace();
  e.getFixed("bounds");
  e.callHelper("allocate");
  takeResult(e, i, "i64");
};

/** Emits code for `free(address)`. */
const free: Emit = (e, i) => {
  checkHostCall(e, i, { parameters: [64] });
  pushArgument(e, i, 0);
  e.pushPlace();
  e.getFixed("bounds");
  e.callHelper("free");
};

/** Emits code for `cudaGraphSetConditional(handle, value)`. */
const setCondition: Emit = (e, i) => {
  checkHostCall(e, i, { parameters: [64, 32] });
  pushArgument(e, i, 0);
  pushArgument(e, i, 1);
  e.callHelper("setCondition");
};

/** Maps the name of each function that the device provides to the lowering of a call to it. */
export const hostCalls: ReadonlyMap<string, Emit> = new Map([
  ["vprintf", print],
  ["__assertfail", failAssertion],
  ["malloc", allocate],
  ["__cuda_syscall_aligned_malloc", allocateAligned],
  ["free", free],
  ["cudaGraphSetConditional", setCondition],
]);

/** The functions that allocate memory in the device's heap, or free it. */
const heapCalls: ReadonlySet<string> = new Set(["malloc", "__cuda_syscall_aligned_malloc", "free"]);

/** Whether an instruction allocates memory in the device's heap, or frees it. */
export function usesHeap(i: ResolvedInstruction): boolean {
  if (i.form.flow !== "call") return false;
  const target = callTarget(i);
  return target.kind === "function" && target.declaration.body === undefined && heapCalls.has(target.name);
}
