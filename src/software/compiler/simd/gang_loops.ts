/**
 * Emits the loops around a gang's body: over the gangs of a block, from barrier to barrier, and over blocks.
 *
 * @module
 */
import { type FixedLocal, launchRecordLocal } from "../codegen/locals.ts";
import type { FunctionEmitter } from "../codegen/function_emitter.ts";
import { launchFieldOffset } from "../../abi/launch_record.ts";
import { emitLoopOverBlocks, emitLoopOverThreads } from "../codegen/thread_loops.ts";
import type { CodeWriter } from "../webassembly/code_writer.ts";
import type { GangEmitter } from "./gang_emitter.ts";
import { gangHeader, gangState } from "./gang_layout.ts";

/** The locals that describe the state of a block of threads, in a function that runs gangs from barrier to barrier. */
export interface BlockState {
  /** The local that is 1 if any gang of the block waits at a barrier. */
  readonly waiting: number;
  /** The local with the number of the barrier at which gangs wait. */
  readonly barrier: number;
  /** The local that is 1 if some threads wait individually, or if gangs wait at different barriers. */
  readonly isMixed: number;
}

/**
 * Emits a function that runs the gangs of a range of blocks one after another, each to completion. The function returns
 * the index past the last block.
 */
export function emitWholeGangs({ emitter: e, area, width }: GangEmitter, body: Uint8Array): Uint8Array {
  return emitLoopOverBlocks(e, {
    memory: { from: "gangs", to: area },
    emitBlock: (code) => emitLoopOverThreads(e, code, { width, emit: () => code.block().append(body).end() }),
  }).get(e.fixedLocal("blockX")).finish();
}

/**
 * Emits a function that runs the gangs of a range of blocks from barrier to barrier. The function returns the index
 * past the last block, or the index of a block whose threads it has saved as individual threads.
 */
export function emitSuspendableGangs(
  { emitter: e, area, width, savedBytes }: GangEmitter,
  body: Uint8Array,
  { block: { waiting, isMixed }, scalarExit }: { block: BlockState; scalarExit: number },
): Uint8Array {
  const local = (name: FixedLocal) => e.fixedLocal(name);
  const emitRounds = (code: CodeWriter) => {
    const emitForEachGang = (emitGang: () => void) => {
      emitLoopOverThreads(e, code, {
        width,
        emit: () => {
          emitGang();
          code.get(area).i32(savedBytes).ops("i32Add").set(area);
          code.get(local("thread")).i32(width).ops("i32Add").set(local("thread"));
        },
      });
    };
    const beginAgain = () => code.get(local("gangs")).set(area).i32(0).set(local("thread"));
    beginAgain();
    emitForEachGang(() => {
      code.get(area).i32(gangState.start).memory("i32Store", gangHeader.state).get(area);
      pushFirstThreadIndex(e, code).memory("i32Store", gangHeader.threadIndex);
    });
    code.i32(0).set(isMixed).loop().i32(0).set(waiting);
    emitIncrement(code, "rounds");
    beginAgain();
    emitForEachGang(() => {
      code.block();
      code.get(area).memory("i32Load", gangHeader.state).tee(local("resumeIndex")).i32(0).ops("i32LtS").brIf(0);
      code.append(body).end();
    });
    code.get(isMixed).if();
    beginAgain();
    code.get(launchRecordLocal).get(local("blockX")).memory("i32Store", launchFieldOffset("blockX"));
    emitForEachGang(() => {
      code.get(area).memory("i32Load", gangHeader.state).tee(local("resumeIndex")).i32(gangState.single);
      code.ops("i32Ne").if().get(launchRecordLocal).i32(0).get(local("resumeIndex"));
      code.get(local("resumeIndex")).i32(gangState.exited).ops("i32Eq", "select").get(area).get(local("thread"));
      code.get(area).memory("i32Load", gangHeader.threadIndex).i32(0).call(scalarExit).ops("drop").end();
    });
    code.get(local("blockX")).ops("return").end();
    code.get(waiting).brIf(0).end();
  };
  return emitLoopOverBlocks(e, { memory: { from: "gangs", to: area }, emitBlock: emitRounds })
    .get(local("blockX")).finish();
}

/** Emits code that increments a counter of the launch record. */
export function emitIncrement(code: CodeWriter, counter: "divergences" | "rounds"): void {
  code.get(launchRecordLocal).get(launchRecordLocal).memory("i32Load", launchFieldOffset(counter)).i32(1).ops("i32Add");
  code.memory("i32Store", launchFieldOffset(counter));
}

/**
 * Emits code that pushes the index of the gang's first thread in the block, with x, y and z packed as in thread
 * records.
 */
export function pushFirstThreadIndex(e: FunctionEmitter, code: CodeWriter): CodeWriter {
  const local = (name: FixedLocal) => e.fixedLocal(name);
  code.get(local("threadX")).get(local("threadY")).i32(10).ops("i32Shl", "i32Or");
  return code.get(local("threadZ")).i32(20).ops("i32Shl", "i32Or");
}
