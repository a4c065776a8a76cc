/**
 * Finds the table row of an instruction from its opcode and modifiers, without resolving its operands.
 *
 * @module
 */
import { matchForm } from "./form_syntax.ts";
import type { InstructionRow } from "./instruction_traits.ts";
import { controlFlowRows, miscellaneousRows, synchronizationRows, unsupportedRows } from "./rows/control.ts";
import { comparisonRows, floatRows } from "./rows/floats.ts";
import { integerRows, logicRows, packedVideoRows, videoRows } from "./rows/integers.ts";
import { atomicRows, dataMovementRows } from "./rows/memory.ts";

let rowsByOpcode: ReadonlyMap<string, readonly InstructionRow[]> | undefined;
const found = new Map<string, InstructionRow | undefined>();

/**
 * Returns the row of an instruction. If no row matches all modifiers, as for instructions of newer GPUs, returns the
 * row of the opcode that matches the most leading modifiers. Rows of hints are then skipped unless all rows of the
 * opcode are hints: `cp.async.bulk.prefetch` is a hint, but other forms of `cp.async.bulk` access memory. Undefined for
 * an opcode that is not in the table.
 */
export function findRow(opcode: string, modifiers: readonly string[]): InstructionRow | undefined {
  const text = `${opcode}.${modifiers.join(".")}`;
  if (!found.has(text)) found.set(text, find(opcode, modifiers));
  return found.get(text);
}

function find(opcode: string, modifiers: readonly string[]): InstructionRow | undefined {
  const rows = (rowsByOpcode ??= groupRows()).get(opcode) ?? [];
  const hasOnlyHints = rows.every(({ traits }) => traits.hasNoEffect);
  let nearest: InstructionRow | undefined;
  let furthest = -1;
  for (const row of rows) {
    const match = matchForm(row, modifiers);
    if (match.matched) return row;
    if (match.at <= furthest || (row.traits.hasNoEffect && !hasOnlyHints)) continue;
    furthest = match.at;
    nearest = row;
  }
  return nearest;
}

function groupRows(): ReadonlyMap<string, readonly InstructionRow[]> {
  const families = [
    integerRows,
    floatRows,
    comparisonRows,
    logicRows,
    dataMovementRows,
    controlFlowRows,
    synchronizationRows,
    atomicRows,
    videoRows,
    packedVideoRows,
    miscellaneousRows,
    unsupportedRows,
  ];
  const rows = families.flatMap((family) => Object.values(family()).flat() as InstructionRow[]);
  return Map.groupBy(rows, ({ opcode }) => opcode);
}
