/**
 * Emits the steps of a basic block so that runs of 64-bit arithmetic check for NaNs only once.
 *
 * WebAssembly does not specify which NaN an operation returns, so each operation must check whether its result is a
 * NaN. But arithmetic returns a NaN whenever an operand is a NaN: if the final results of a run are numbers, so are all
 * intermediate results. Otherwise, the run is executed again, with a check of every result.
 *
 * @module
 */
import type { CompiledInstruction } from "../instructions/instruction_form.ts";
import type { CompiledStep } from "../control_flow/function_flow.ts";
import { resultsOf, sourcesOf } from "../../../ptx/analysis/definitions_and_uses.ts";
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";
import type { FunctionEmitter } from "./function_emitter.ts";

/** A run of instructions is emitted twice only if it has at least this many operations per checked result. */
const leastOperations = 3;
/**
 * Runs of instructions are emitted twice only in functions with at most this many instructions, to limit the code size.
 */
const mostInstructions = 20_000;

/** Maps each register to the instructions that read it. */
export type RegisterReaders = ReadonlyMap<Register, ReadonlySet<CompiledInstruction>>;

/**
 * Finds the instructions that read each register. Undefined if the function is too large to emit runs of instructions
 * twice.
 */
export function registerReaders(instructions: readonly CompiledInstruction[]): RegisterReaders | undefined {
  if (instructions.length > mostInstructions || !instructions.some(propagates)) return undefined;
  const readers = new Map<Register, Set<CompiledInstruction>>();
  for (const instruction of instructions) {
    for (const register of readBy(instruction)) {
      const found = readers.get(register) ?? new Set();
      readers.set(register, found.add(instruction));
    }
  }
  return readers;
}

/** Emits the steps of a basic block. Without `readers`, each step checks its own results for NaNs. */
export function emitSteps(
  e: FunctionEmitter,
  steps: readonly CompiledStep[],
  readers: RegisterReaders | undefined,
): void {
  if (readers === undefined) {
    for (const step of steps) step.emit(e);
    return;
  }
  for (const { run, checked } of stepRunsOf(steps, readers)) {
    const operations = run.filter(({ instruction }) => instruction !== undefined && propagates(instruction)).length;
    if (checked.length > 0 && operations >= leastOperations * checked.length) emitRun(e, run, checked);
    else run.forEach((step) => step.emit(e));
  }
}

/** Consecutive steps of a basic block that can be executed again, or a single step that cannot. */
export interface StepRun {
  readonly run: readonly CompiledStep[];
  /**
   * The instructions of the run whose results are checked: if any observable result of the run is a NaN, so is one of
   * these results.
   */
  readonly checked: readonly CompiledInstruction[];
}

/** Divides the steps of a basic block into runs that can be executed again, and single steps that cannot. */
export function* stepRunsOf(steps: readonly CompiledStep[], readers: RegisterReaders | undefined): Generator<StepRun> {
  for (let begin = 0; begin < steps.length;) {
    let end = begin;
    if (readers !== undefined) { while (end < steps.length && canRepeat(steps[end]!)) end++; }
    const run = steps.slice(begin, end);
    if (run.length > 0) yield { run, checked: checkedResults(run, readers!) };
    if (end === begin) yield { run: [steps[end++]!], checked: [] };
    begin = end;
  }
}

function emitRun(e: FunctionEmitter, run: readonly CompiledStep[], checked: readonly CompiledInstruction[]): void {
  const { code } = e;
  // Save the inputs that the run overwrites, so that it can be executed again. Compare locals, because different
  // registers may share a local.
  const results = run.flatMap(({ instruction }) => resultsOf(instruction!));
  const set = new Set(results.map((register) => e.registerLocal(register)));
  const restored = readFirst(run).filter((register) => set.has(e.registerLocal(register))).map((register) => {
    return { register, before: e.newLocal(e.valueType(register)) };
  });
  for (const { register, before } of restored) code.get(e.registerLocal(register)).set(before);
  const tested: number[] = [];
  for (const { instruction, emit } of run) {
    e.defersNaN64 = propagates(instruction!);
    emit(e);
    e.defersNaN64 = false;
    if (!checked.includes(instruction!)) continue;
    const [register] = resultsOf(instruction!);
    const result = e.newLocal("f64");
    code.get(e.registerLocal(register!));
    if (e.valueType(register!) === "i64") code.ops("f64ReinterpretI64");
    code.set(result);
    tested.push(result);
  }
  tested.forEach((result, index) => {
    code.get(result).get(result).ops("f64Ne");
    if (index > 0) code.ops("i32Or");
  });
  code.ifUnlikely();
  for (const { register, before } of restored) code.get(before).set(e.registerLocal(register));
  e.emitConditionally(() => run.forEach((step) => step.emit(e)));
  code.end();
}

/** Returns the operations whose results must be checked to detect every NaN that is observed in the run or after it. */
function checkedResults(run: readonly CompiledStep[], readers: RegisterReaders): CompiledInstruction[] {
  const instructions = run.map(({ instruction }) => instruction!);
  if (!instructions.some(propagates)) return [];
  const inside = new Set(instructions);
  const leaving = new Set(readFirst(run));
  /** Maps each operation to the last operation of the run that its result flows into, or to itself if there is none. */
  const last = new Map<CompiledInstruction, CompiledInstruction>();
  const checked = new Set<CompiledInstruction>();
  for (let index = instructions.length - 1; index >= 0; index--) {
    const instruction = instructions[index]!;
    if (!propagates(instruction)) continue;
    const [register] = resultsOf(instruction);
    last.set(instruction, instruction);
    if (register === undefined) continue;
    let isObserved = false, isOverwritten = false;
    for (const later of instructions.slice(index + 1)) {
      if (readBy(later).includes(register)) {
        if (propagates(later)) last.set(instruction, last.get(later)!);
        else if (!later.form.traits.ignoresNaNBits) isObserved = true;
      }
      isOverwritten = resultsOf(later).includes(register);
      if (isOverwritten) break;
    }
    const isReadElsewhere = leaving.has(register) || [...readers.get(register) ?? []].some((by) => !inside.has(by));
    if (isObserved || (!isOverwritten && isReadElsewhere)) checked.add(last.get(instruction)!);
  }
  return [...checked];
}

/** Returns the registers that a run reads before it sets them, including those that it never sets. */
export function readFirst(run: readonly CompiledStep[]): Register[] {
  const set = new Set<Register>(), found = new Set<Register>();
  for (const { instruction } of run) {
    for (const register of readBy(instruction!)) if (!set.has(register)) found.add(register);
    for (const register of resultsOf(instruction!)) set.add(register);
  }
  return [...found];
}

/** Whether an instruction's result is a NaN whenever a source is a NaN. */
export function propagates({ form }: CompiledInstruction): boolean {
  return form.traits.propagatesNaN64 === true;
}

/** Whether an instruction can be executed twice with the same result. */
function canRepeat({ instruction }: CompiledStep): boolean {
  return instruction !== undefined && instruction.predicate === undefined && instruction.form.flow === undefined &&
    instruction.form.traits.effects?.length === 0 && instruction.form.traits.isUniform === true &&
    sourcesOf(instruction).every(({ kind }) => kind !== "special");
}

function readBy(instruction: CompiledInstruction): Register[] {
  const sources = sourcesOf(instruction).filter((source) => source.kind === "register");
  return instruction.predicate === undefined ? sources : [...sources, instruction.predicate.register];
}
