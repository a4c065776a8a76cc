/**
 * Emits the loops around the body of one thread: over the threads of a block, and over blocks.
 *
 * @module
 */
import { type FixedLocal, launchRecordLocal, runType } from "./locals.ts";
import type { FunctionEmitter } from "./function_emitter.ts";
import type { ArgumentRange } from "./function_locals.ts";
import { fillShadow } from "../checks/memory_shadows.ts";
import { helperIndex } from "../helpers/helper_functions.ts";
import { loadOp } from "../instructions/memory/memory_instructions.ts";
import {
  type LaunchField,
  launchFieldOffset,
  launchFields,
  threadRecord,
  threadRecordByteLength,
  threadStarts,
} from "../../abi/launch_record.ts";
import { CodeWriter } from "../webassembly/code_writer.ts";
import type { FunctionDefinition } from "../webassembly/module_encoder.ts";

/** The number of iterations of a spin loop before a thread yields. */
const spinsBeforeYield = 64;

/**
 * The loops over a block's threads, from outermost to innermost: the local of the loop counter, and the local of its
 * limit.
 */
const dimensions = [["threadZ", "blockDimZ"], ["threadY", "blockDimY"], ["threadX", "blockDimX"]] as const;

/**
 * Emits code that runs the blocks specified by the launch record. Each thread runs to completion before the next one
 * starts.
 */
export function emitWholeBlocks(e: FunctionEmitter, body: Uint8Array, frameBytes: number): Uint8Array {
  const local = (name: FixedLocal) => e.fixedLocal(name);
  if (e.shadows !== undefined) local("shared");
  const emitThread = (code: CodeWriter) => {
    if (e.sizes.hasStackPointer) code.get(local("local")).i32(frameBytes).ops("i32Add").set(local("stackPointer"));
    code.block().append(body).end();
  };
  return emitLoopOverBlocks(e, {
    memory: { from: "localMemory", to: local("local") },
    emitBlock(code) {
      if (e.shadows !== undefined) {
        code.get(local("shared"));
        fillShadow(code, 0, () => code.get(local("sharedBytes")));
      }
      emitLoopOverThreads(e, code, { width: 1, emit: () => emitThread(code) });
    },
  }).finish();
}

/**
 * Emits a loop over the blocks specified by the launch record. The blocks run one after another and reuse the same
 * memory: the local `memory.to` is set to the field `memory.from` of the launch record.
 */
export function emitLoopOverBlocks(
  e: FunctionEmitter,
  { memory, emitBlock }: {
    memory: { readonly from: LaunchField; readonly to: number };
    emitBlock: (code: CodeWriter) => void;
  },
): CodeWriter {
  const code = new CodeWriter();
  const local = (name: FixedLocal) => e.fixedLocal(name);
  for (const name of ["firstBlockX", "lastBlockX", "blockX", memory.from, "fuelLeft"] as const) local(name);
  for (const names of dimensions) names.forEach(local);
  if (e.options.variesThreads) { for (const name of [...threadStarts, "reversedThreads"] as const) local(name); }
  emitPreloads(e, code, new Set(["blockX"]));
  code.get(local(memory.from)).set(memory.to);
  code.get(local("firstBlockX")).set(local("blockX"));
  code.block().loop();
  code.get(local("blockX")).get(local("lastBlockX")).ops("i32GeU").brIf(1);
  code.get(launchRecordLocal).get(local("blockX")).memory("i32Store", launchFieldOffset("blockX"));
  emitBlock(code);
  return code.get(local("blockX")).i32(1).ops("i32Add").set(local("blockX")).br(0).end().end();
}

/** Emits loops over the indices of a block's threads, `width` threads at a time along x. */
export function emitLoopOverThreads(
  e: FunctionEmitter,
  code: CodeWriter,
  { width, emit }: { width: number; emit: () => void },
): void {
  const counters = new Map(dimensions.map(([name]) => {
    return [name, e.options.variesThreads ? e.newLocal("i32") : e.fixedLocal(name)] as const;
  }));
  for (const [counter] of dimensions) {
    const local = e.fixedLocal(counter);
    code.i32(0).set(counters.get(counter)!).loop();
    if (e.options.variesThreads) emitVariedIndex(e, code, { counter: counters.get(counter)!, name: counter });
    const row = counter === "threadZ" ? "rowZ" : counter === "threadY" ? "rowY" : undefined;
    if (row !== undefined) code.get(launchRecordLocal).get(local).memory("i32Store", launchFieldOffset(row));
  }
  emit();
  for (const [counter, end] of dimensions.toReversed()) {
    const local = counters.get(counter)!;
    code.get(local).i32(counter === "threadX" ? width : 1).ops("i32Add").tee(local);
    code.get(e.fixedLocal(end)).ops("i32LtU").brIf(0).end();
  }
}

/** The axis of each thread index. */
const axes = { threadX: 0, threadY: 1, threadZ: 2 } as const;

/** Emits code that computes a thread's index from the loop counter, for a rotated or reversed order. */
function emitVariedIndex(
  e: FunctionEmitter,
  code: CodeWriter,
  { counter, name }: { counter: number; name: keyof typeof axes },
): void {
  const axis = axes[name];
  const index = e.fixedLocal(name), count = e.fixedLocal(dimensions[2 - axis]![1]);
  code.get(counter).get(e.fixedLocal(threadStarts[axis])).ops("i32Add").tee(index).get(count).ops("i32GeU").if();
  code.get(index).get(count).ops("i32Sub").set(index).end();
  code.get(e.fixedLocal("reversedThreads")).i32(1 << axis).ops("i32And").if();
  code.get(count).i32(1).ops("i32Sub").get(index).ops("i32Sub").set(index).end();
}

/** The range of resume indices that belong to a part of a kernel. */
export interface ResumeIndices {
  readonly first: number;
  readonly count: number;
}

/**
 * Emits code that runs each runnable thread among those specified by the launch record, until it exits or is suspended.
 *
 * @param options `part`: the resume indices of the part, if the code is for a part of a kernel. Such code starts at the
 * thread that the function receives as an argument. It stops at the first thread that is to continue in another part,
 * and returns the number of that thread
 */
export function emitSuspendableThreads(
  e: FunctionEmitter,
  body: Uint8Array,
  { localBytes, savedBytes, part }: {
    readonly localBytes: number;
    readonly savedBytes: number;
    readonly part?: ResumeIndices | undefined;
  },
): Uint8Array {
  const code = new CodeWriter();
  const local = (name: FixedLocal) => e.fixedLocal(name);
  const first = part === undefined ? "firstThread" : "thread";
  const names = [first, "lastThread", "threads", "localMemory", "savedRegisters", "fuelLeft"] as const;
  for (const name of names) local(name);
  emitPreloads(e, code, new Set());
  const load = (field: keyof typeof threadRecord) => code.get(local("record")).memory("i32Load", threadRecord[field]);
  code.get(local(first)).tee(local("thread")).i32(threadRecordByteLength).ops("i32Mul");
  code.get(local("threads")).ops("i32Add").set(local("record"));
  code.block().loop();
  code.get(local("thread")).get(local("lastThread")).ops("i32GeU").brIf(1);
  code.block();
  load("request").brIf(0);
  if (part !== undefined) load("resumeIndex").i32(part.first).ops("i32Sub").i32(part.count).ops("i32GeU").brIf(2);
  load("threadIndex").i32(0x3ff).ops("i32And").set(local("threadX"));
  load("threadIndex").i32(10).ops("i32ShrU").i32(0x3ff).ops("i32And").set(local("threadY"));
  load("threadIndex").i32(20).ops("i32ShrU").set(local("threadZ"));
  const memoryOf = (base: FixedLocal, stride: number) =>
    code.get(local(base)).get(local("thread")).i32(stride).ops("i32Mul", "i32Add");
  memoryOf("localMemory", localBytes).set(local("local"));
  if (e.sizes.hasFrames) {
    load("frame").set(local("frame"));
    load("saved").set(local("saved"));
  } else {
    memoryOf("savedRegisters", savedBytes).set(local("saved"));
  }
  if (e.sizes.hasStackPointer) load("stackPointer").set(local("stackPointer"));
  if (part === undefined) {
    code.i32(spinsBeforeYield).set(local("spins"));
  } else {
    // The field is 0 for a thread that was suspended, and uninitialized for a thread that has not run yet.
    load("spins").i32(1).ops("i32Sub").i32(spinsBeforeYield - 1).ops("i32And").i32(1).ops("i32Add").set(local("spins"));
    code.get(local("record")).i32(0).memory("i32Store", threadRecord.spins);
  }
  load("resumeIndex").set(local("resumeIndex"));
  code.append(body).end();
  if (part !== undefined) load("request").ops("i32Eqz").brIf(1);
  code.get(local("thread")).i32(1).ops("i32Add").set(local("thread"));
  code.get(local("record")).i32(threadRecordByteLength).ops("i32Add").set(local("record"));
  code.br(0).end().end();
  // The emitted code saves the remaining fuel for the next call, so that many short calls also use up the fuel.
  if (e.fixedLocals.has("fuel")) {
    code.get(launchRecordLocal).get(local("fuel")).memory("i32Store", launchFieldOffset("fuelLeft"));
  }
  if (part !== undefined) code.get(local("thread"));
  return code.finish();
}

/**
 * Builds the function that runs the threads of a divided kernel. For each thread, it repeatedly calls the part that
 * contains the thread's resume point, until the thread exits or is suspended.
 *
 * @param parts the function index and the resume indices of each part, in ascending order of the resume indices
 */
export function runParts(
  exportName: string,
  parts: readonly (ResumeIndices & { readonly functionIndex: number })[],
): FunctionDefinition {
  const code = new CodeWriter();
  const [thread, lastThread, record, resumeIndex] = [1, 2, 3, 4] as const;
  const load = (field: LaunchField) => code.get(launchRecordLocal).memory("i32Load", launchFieldOffset(field));
  load("firstThread").set(thread);
  load("lastThread").set(lastThread);
  code.block().loop();
  code.get(thread).get(lastThread).ops("i32GeU").brIf(1);
  load("threads").get(thread).i32(threadRecordByteLength).ops("i32Mul", "i32Add").tee(record);
  code.memory("i32Load", threadRecord.request).if();
  code.get(thread).i32(1).ops("i32Add").set(thread).br(1).end();
  code.get(record).memory("i32Load", threadRecord.resumeIndex).set(resumeIndex);
  const call = (begin: number, end: number): void => {
    const middle = (begin + end) >> 1;
    if (middle === begin) {
      code.get(launchRecordLocal).get(thread).call(parts[begin]!.functionIndex);
      return;
    }
    code.get(resumeIndex).i32(parts[middle]!.first).ops("i32GeU").if("i32");
    call(middle, end);
    code.else();
    call(begin, middle);
    code.end();
  };
  call(0, parts.length);
  code.set(thread).br(0).end().end();
  return { type: runType, locals: ["i32", "i32", "i32", "i32"], code: code.finish(), exportName };
}

/**
 * Emits code that loads launch fields and kernel parameters into their locals, and computes the locals that derive from
 * them. Skips the fields in `computed`.
 */
function emitPreloads(e: FunctionEmitter, code: CodeWriter, computed: ReadonlySet<FixedLocal>): void {
  e.fixedLocal("parameters");
  e.fixedLocal("sharedBytes");
  for (const [name, local] of e.fixedLocals) {
    if (!isLaunchField(name) || computed.has(name)) continue;
    code.get(launchRecordLocal).memory("i32Load", launchFieldOffset(name)).set(local);
  }
  if (e.fixedLocals.has("fuel")) code.get(e.fixedLocal("fuelLeft")).set(e.fixedLocal("fuel"));
  for (const { local, offset, type } of e.preloadedParameters) {
    code.get(e.fixedLocal("parameters")).memory(loadOp(type), offset).set(local);
  }
  for (const { pointer, location, reach, bytes } of e.parameterPointers) {
    code.get(pointer).ops("i32WrapI64").set(location);
    code.get(pointer).i32(bytes).get(e.fixedLocal("bounds")).call(helperIndex("findReach")).set(reach);
  }
  for (const range of e.argumentRanges) emitArgumentRange(e, code, range);
  for (const [bytes, local] of e.sharedCapacityLocals) {
    code.get(e.fixedLocal("sharedBytes")).i32(bytes).ops("i32DivU").set(local);
  }
}

function emitArgumentRange(
  e: FunctionEmitter,
  code: CodeWriter,
  { parameter, bytes, begin, length, room }: ArgumentRange,
): void {
  const table = e.fixedLocal("argumentRanges");
  code.get(table).memory("i32Load", parameter).set(begin);
  code.get(table).memory("i32Load", parameter + 4).tee(length).i32(bytes - 1).ops("i32Sub").set(room);
  code.get(length).i32(bytes).ops("i32LtU").if().i32(0).set(room).end();
}

function isLaunchField(name: FixedLocal): name is LaunchField {
  return (launchFields as readonly string[]).includes(name);
}
