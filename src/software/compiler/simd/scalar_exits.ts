import type { ResumableKernel, ResumePoint } from "../codegen/code_generator.ts";
import { launchRecordLocal } from "../codegen/locals.ts";
import {
  exited,
  type LaunchField,
  launchFieldOffset,
  threadRecord,
  threadRecordByteLength,
} from "../../abi/launch_record.ts";
import type { Register } from "../../../ptx/instructions/resolved_instruction.ts";
import { addStrides, type GangEmitter, memberShift } from "./gang_emitter.ts";
import { gangHeader, gangState } from "./gang_layout.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";

/** How the threads of a gang continue as individual threads. */
export type ScalarExit =
  | { readonly kind: "exited" }
  /** The threads wait at a barrier. */
  | { readonly kind: "suspended"; readonly resumePoint: ResumePoint; readonly barrier: number }
  /** The threads take different directions of a branch. */
  | { readonly kind: "branch"; readonly taken: ResumePoint; readonly otherwise: ResumePoint }
  /**
   * All threads resume at the same point: before an instruction whose operand wraps around within the gang, or at a
   * suspend point.
   */
  | { readonly kind: "together"; readonly resumePoint: ResumePoint; readonly way: "before" | "suspending" };

const [point, area, firstThread, threadIndex, runs] = [1, 2, 3, 4, 5] as const;
const [member, record, saved, count] = [6, 7, 8, 9] as const;

/**
 * Builds the function that saves the threads of a gang, with their records and registers, in the layout of the scalar
 * kernel.
 *
 * The function's parameters are the offset of the launch record, the index of the scalar exit, the offset of the gang's
 * save area, the number of the gang's first thread in the array of thread records, that thread's x, y and z indices
 * packed as in its record, and whether to run the threads until each of them exits or waits. The function returns
 * whether any thread waits.
 */
export function scalarExitFunction(
  points: readonly ScalarExit[],
  { gang, resumable, index }: { gang: GangEmitter; resumable: ResumableKernel; index: number },
): FunctionDefinition {
  const code = new CodeWriter();
  const load = (field: LaunchField) => code.get(launchRecordLocal).memory("i32Load", launchFieldOffset(field));
  load("threads").get(firstThread).i32(threadRecordByteLength).ops("i32Mul", "i32Add").set(record);
  load("savedRegisters").get(firstThread).i32(resumable.savedBytes).ops("i32Mul", "i32Add").set(saved);
  code.loop();
  code.get(record).get(threadIndex).get(member).ops("i32Add").memory("i32Store", threadRecord.threadIndex);
  code.get(record).i32(0).memory("i32Store", threadRecord.request);
  for (let number = 0; number <= points.length; number++) code.block();
  code.get(point).brTable(points.map((_, number) => number), points.length);
  points.forEach((point, number) => {
    code.end();
    emitPoint(code, point, { gang, resumable });
    code.br(points.length - number - 1);
  });
  code.end();
  code.get(record).i32(threadRecordByteLength).ops("i32Add").set(record);
  code.get(saved).i32(resumable.savedBytes).ops("i32Add").set(saved);
  code.get(member).i32(1).ops("i32Add").tee(member).i32(gang.width).ops("i32LtU").brIf(0).end();
  code.get(runs).ops("i32Eqz").if().i32(0).ops("return").end();
  code.get(launchRecordLocal).get(firstThread).memory("i32Store", launchFieldOffset("firstThread"));
  code.get(launchRecordLocal).get(firstThread).i32(gang.width).ops("i32Add").memory(
    "i32Store",
    launchFieldOffset("lastThread"),
  );
  code.get(launchRecordLocal).call(index);
  code.loop();
  code.get(record).i32(threadRecordByteLength).ops("i32Sub").tee(record).memory("i32Load", threadRecord.request);
  code.i32(exited).ops("i32Ne").get(count).ops("i32Or").set(count);
  code.get(member).i32(1).ops("i32Sub").tee(member).brIf(0).end().get(count);
  return {
    type: { parameters: ["i32", "i32", "i32", "i32", "i32", "i32"], results: ["i32"] },
    locals: ["i32", "i32", "i32", "i32"],
    code: code.finish(),
  };
}

const [gatheredArea, gatheredThread] = [1, 2] as const;
const [gatheredMember, gatheredRecord, gatheredSaved, state, isSame, first] = [3, 4, 5, 6, 7, 8] as const;

/**
 * Builds the function that merges individual threads into a gang again, if all of them wait at one barrier.
 *
 * The function's parameters are the offset of the launch record, the offset of the gang's save area, and the number of
 * the gang's first thread. The function returns the gang's new state: the number of the suspension, or
 * `gangState.single` if the threads cannot form a gang. They cannot if they wait at different points, or if the values
 * of a register that a gang stores as uniform or strided no longer have the register's stride.
 */
export function reconvergeFunction(
  points: readonly ScalarExit[],
  { gang, resumable }: { gang: GangEmitter; resumable: ResumableKernel },
): FunctionDefinition {
  const code = new CodeWriter();
  const suspended = points.flatMap((point, number) => point.kind === "suspended" ? [{ ...point, number }] : []);
  const load = (field: LaunchField) => code.get(launchRecordLocal).memory("i32Load", launchFieldOffset(field));
  const loadRecord = (field: keyof typeof threadRecord) =>
    code.get(gatheredRecord).memory("i32Load", threadRecord[field]);
  load("threads").get(gatheredThread).i32(threadRecordByteLength).ops("i32Mul", "i32Add").set(gatheredRecord);
  load("savedRegisters").get(gatheredThread).i32(resumable.savedBytes).ops("i32Mul", "i32Add").set(gatheredSaved);
  loadRecord("resumeIndex").set(first).i32(gangState.single).set(state).i32(1).set(isSame);
  for (const { resumePoint, number } of suspended) {
    loadRecord("request").i32(resumePoint.request).ops("i32Eq").if().i32(number).set(state).end();
  }
  code.get(state).i32(gangState.single).ops("i32Eq").if().i32(gangState.single).ops("return").end();
  for (const { number, resumePoint: { live } } of suspended) {
    code.get(state).i32(number).ops("i32Eq").if();
    for (const register of live) {
      if (gang.storageOf(register).kind === "mask") {
        code.get(gatheredArea).i32(0).memory("i32Store", gang.slot(register));
      }
    }
    code.end();
  }
  code.loop();
  loadRecord("resumeIndex").get(first).ops("i32Eq").get(isSame).ops("i32And");
  loadRecord("request").i32(0).ops("i32GtS", "i32And").set(isSame);
  for (const { number, resumePoint: { live } } of suspended) {
    code.get(state).i32(number).ops("i32Eq").if();
    for (const register of live) gatherRegister(code, gang, { register, slot: resumable.slots.get(register)! });
    code.end();
  }
  code.get(gatheredRecord).i32(threadRecordByteLength).ops("i32Add").set(gatheredRecord);
  code.get(gatheredSaved).i32(resumable.savedBytes).ops("i32Add").set(gatheredSaved);
  code.get(gatheredMember).i32(1).ops("i32Add").tee(gatheredMember).i32(gang.width).ops("i32LtU").brIf(0).end();
  code.get(state).i32(gangState.single).get(isSame).ops("select");
  return {
    type: { parameters: ["i32", "i32", "i32"], results: ["i32"] },
    locals: ["i32", "i32", "i32", "i32", "i32", "i32"],
    code: code.finish(),
  };
}

/**
 * Emits code that copies a thread's saved value of a register to the gang, or clears the local `isSame` if the value
 * does not fit the register's stride.
 */
function gatherRegister(
  code: CodeWriter,
  gang: GangEmitter,
  { register, slot }: { register: Register; slot: number },
): void {
  const storage = gang.storageOf(register);
  const to = gang.slot(register);
  const type = register.type.bits === 64 ? "i64" : "i32";
  const load = () => code.get(gatheredSaved).memory(`${type}Load`, slot);
  const pushMember = (shift: number) => code.get(gatheredArea).get(gatheredMember).i32(shift).ops("i32Shl", "i32Add");
  switch (storage.kind) {
    case "number":
      code.get(gatheredMember).ops("i32Eqz").if().get(gatheredArea);
      load().memory(`${type}Store`, to).end();
      load().get(gatheredArea).memory(`${type}Load`, to);
      if (storage.stride !== 0n) {
        addStrides(code, gatheredMember, { stride: storage.stride, bits: register.type.bits });
      }
      code.ops(`${type}Eq`).get(isSame).ops("i32And").set(isSame);
      break;
    case "mask":
      code.get(gatheredArea).get(gatheredArea).memory("i32Load", to);
      load().get(gatheredMember).ops("i32Shl", "i32Or").memory("i32Store", to);
      break;
    case "vectors":
      pushMember(memberShift(register));
      load().memory(`${type}Store`, to);
      break;
    case "memory":
      pushMember(3);
      load().memory(`${type}Store`, to);
      break;
  }
}

/** Emits code that sets up the record and the registers of one thread of the gang for a scalar exit. */
function emitPoint(
  code: CodeWriter,
  point: ScalarExit,
  { gang, resumable }: { gang: GangEmitter; resumable: ResumableKernel },
): void {
  const store = (field: keyof typeof threadRecord, value: number) =>
    code.get(record).i32(value).memory("i32Store", threadRecord[field]);
  const copy = (registers: Iterable<Register>) => {
    for (const register of registers) copyRegister(code, gang, { register, slot: resumable.slots.get(register)! });
  };
  switch (point.kind) {
    case "exited":
      store("request", exited);
      break;
    case "suspended":
      store("request", point.resumePoint.request);
      store("resumeIndex", point.resumePoint.resumeIndex);
      store("first", point.barrier);
      store("second", 0);
      copy(point.resumePoint.live);
      break;
    case "together":
      store("resumeIndex", point.resumePoint.resumeIndex);
      copy(point.resumePoint.live);
      break;
    case "branch":
      code.get(record).i32(point.taken.resumeIndex).i32(point.otherwise.resumeIndex);
      code.get(area).memory("i32Load", gangHeader.mask).get(member).ops("i32ShrU").i32(1).ops("i32And", "select");
      code.memory("i32Store", threadRecord.resumeIndex);
      copy(new Set([...point.taken.live, ...point.otherwise.live]));
      break;
  }
}

/**
 * Emits code that copies one thread's value of a register from the gang's save area to the thread's saved registers.
 */
function copyRegister(
  code: CodeWriter,
  gang: GangEmitter,
  { register, slot }: { register: Register; slot: number },
): void {
  const storage = gang.storageOf(register);
  const from = gang.slot(register);
  const type = register.type.bits === 64 ? "i64" : "i32";
  const pushMember = (shift: number) => code.get(area).get(member).i32(shift).ops("i32Shl", "i32Add");
  code.get(saved);
  switch (storage.kind) {
    case "number":
      code.get(area).memory(`${type}Load`, from);
      if (storage.stride !== 0n) addStrides(code, member, { stride: storage.stride, bits: register.type.bits });
      break;
    case "mask":
      code.get(area).memory("i32Load", from).get(member).ops("i32ShrU").i32(1).ops("i32And");
      break;
    case "vectors":
      pushMember(memberShift(register)).memory(`${type}Load`, from);
      break;
    case "memory":
      pushMember(3).memory(`${type}Load`, from);
      break;
  }
  code.memory(`${type}Store`, slot);
}
