/**
 * Finds the differences between the outputs of two devices, and where they come from.
 *
 * @module
 */
import type { Cuda } from "../../src/objects/cuda.ts";
import type { Operation } from "./operation.ts";
import { logEntryBytes, type Program, randomProgram } from "./program.ts";
import { operandSets } from "./operands.ts";
import { differingSets, hexadecimal, resultAt } from "./single_operation.ts";
import { runTrials } from "./trial.ts";

/** A result that differs. */
export interface Difference {
  /** The operation's name, or the program's instruction. */
  readonly operation: string;
  readonly family: string;
  /** Such as "seed 17, step 4, thread 3", or the index of the set of operands. */
  readonly where: string;
  /** In hexadecimal. */
  readonly operands: readonly string[];
  readonly software: string;
  readonly recorded: string;
}

/** Compares two outputs of an operation. Returns the number of results that differ, and the first few of them. */
export function compareOperation(
  operation: Operation,
  { software, recorded, examples = 5 }: { software: Uint8Array; recorded: Uint8Array; examples?: number },
): { count: number; examples: Difference[] } {
  const differing = differingSets(operation, software, recorded);
  const sets = operandSets(operation);
  const describe = (index: number): Difference => ({
    operation: operation.name,
    family: operation.family,
    where: `set ${index}`,
    operands: sets[index]!.map((value, at) =>
      "0x" + value.toString(16).padStart(Math.max(1, operation.operands[at]!.bits / 4), "0")
    ),
    software: resultAt(operation, software, index),
    recorded: resultAt(operation, recorded, index),
  });
  return { count: differing.length, examples: differing.slice(0, examples).map(describe) };
}

/**
 * Returns the first step of a program whose result differs, in the order in which the threads executed the steps, with
 * its operands on the software device.
 */
export function compareProgram(
  seed: number,
  { software, recorded, cuda }: { software: Uint8Array; recorded: Uint8Array; cuda: Cuda },
): Difference | undefined {
  const program = randomProgram(seed);
  const slots = differingSlots(program, software, recorded);
  if (slots.length === 0) return undefined;
  const logged = randomProgram(seed, { keepsLog: true });
  const [log] = runTrials(cuda, [logged]);
  const found = slots.map((slot) => ({
    ...slot,
    entry: log instanceof Error ? undefined : lastEntry(logged, log!, slot),
  }));
  found.sort((one, other) => (one.entry?.time ?? Infinity) - (other.entry?.time ?? Infinity) || one.step - other.step);
  const { step, thread, entry } = found[0]!;
  const { name, family, operands } = program.steps[step]!;
  const at = step * program.stepBytes + thread * 8;
  return {
    operation: name,
    family,
    where: `seed ${seed}, step ${step}, thread ${thread}`,
    operands: entry === undefined
      ? []
      : operands.map(({ bits }, index) =>
        hexadecimal(entry.operands.subarray(index * 8, index * 8 + Math.max(1, bits / 8)))
      ),
    software: hexadecimal(software.subarray(at, at + 8)),
    recorded: hexadecimal(recorded.subarray(at, at + 8)),
  };
}

interface Slot {
  readonly step: number;
  readonly thread: number;
}

function differingSlots({ steps, stepBytes }: Program, one: Uint8Array, other: Uint8Array): Slot[] {
  const slots: Slot[] = [];
  for (let step = 0; step < steps.length; step++) {
    for (let thread = 0; thread * 8 < stepBytes; thread++) {
      const at = step * stepBytes + thread * 8;
      for (let byte = at; byte < at + 8; byte++) {
        if (one[byte] === other[byte]) continue;
        slots.push({ step, thread });
        break;
      }
    }
  }
  return slots;
}

/**
 * Returns the log entry of a thread's last execution of a step, and the number of steps that the thread had executed
 * before it.
 */
function lastEntry(
  { log }: Program,
  output: Uint8Array,
  { step, thread }: Slot,
): { time: number; operands: Uint8Array } | undefined {
  const { begin, entriesPerThread } = log!;
  const view = new DataView(output.buffer, output.byteOffset, output.byteLength);
  for (let time = entriesPerThread - 1; time >= 0; time--) {
    const at = begin + (thread * entriesPerThread + time) * logEntryBytes;
    if (view.getUint32(at, true) === step + 1) return { time, operands: output.subarray(at + 16, at + logEntryBytes) };
  }
  return undefined;
}
