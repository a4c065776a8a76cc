/**
 * Finds the table row of an instruction from its opcode and modifiers, whether or not the row matches them all.
 *
 * @module
 */
import { matchForm } from "./form_syntax.ts";
import type { InstructionRow } from "./instruction_traits.ts";
import type { Instruction } from "../syntax.ts";
import type { ResolvedForm } from "./resolved_instruction.ts";
import { onFirstUse, row } from "./rows/row.ts";
import { scalarTypes, typeNamed } from "./scalar_types.ts";
import { controlFlowRows, miscellaneousRows, synchronizationRows } from "./rows/control.ts";
import { comparisonRows, floatRows } from "./rows/floats.ts";
import { integerRows, logicRows, packedVideoRows, videoRows } from "./rows/integers.ts";
import { matrixProductRows } from "./rows/matrices.ts";
import { atomicRows, dataMovementRows } from "./rows/memory.ts";
import { textureRows } from "./rows/textures.ts";
import { warpgroupProductRows } from "./rows/warpgroup_matrices.ts";

let rowsByOpcode: ReadonlyMap<string, readonly InstructionRow[]> | undefined;
const found = new Map<string, NearestRow>();

/** The row that is nearest to an instruction, and the instruction's modifiers. */
interface NearestRow extends Pick<ResolvedForm, "text" | "choices" | "type" | "sourceType"> {
  /** Undefined for an opcode that is not in the table. */
  readonly row: InstructionRow | undefined;
}

/**
 * Returns the row of an instruction. If no row matches all modifiers, as for instructions of newer GPUs, returns the
 * row of the opcode that matches the most leading modifiers. Rows of hints are then skipped unless all rows of the
 * opcode are hints: `cp.async.bulk.prefetch` is a hint, but other forms of `cp.async.bulk` access memory. Undefined for
 * an opcode that is not in the table.
 */
export function findRow(opcode: string, modifiers: readonly string[]): InstructionRow | undefined {
  return nearestRow(opcode, modifiers).row;
}

/**
 * Resolves an instruction that may be newer than the table. Its form is the nearest row or, for an opcode that is not
 * in the table, a row with the most conservative traits. A modifier that does not fit the form is added to the choices
 * under its own name.
 */
export function resolveNearest({ opcode, modifiers, operands, line }: Omit<Instruction, "predicate">): ResolvedForm {
  const { row, text, choices, type, sourceType } = nearestRow(opcode, modifiers);
  const [settingFirst, accessingFirst] = unknownRows();
  const form = row ?? (operands[0]?.kind === "address" ? accessingFirst : settingFirst);
  return { kind: "instruction", form, text, choices, type, sourceType, line };
}

/**
 * The rows for unknown opcodes: one for an instruction whose first operand is a result, and one for an instruction
 * whose first operand is an address. They may access memory in any way, but are assumed not to terminate the kernel.
 */
const unknownRows = onFirstUse(() => {
  const traits = { effects: ["reads", "observes", "writes", "orders", "allocates"] } as const;
  return [row("unknown d", "", traits), row("unknown [a]", "", traits)] as const;
});

function nearestRow(opcode: string, modifiers: readonly string[]): NearestRow {
  const text = [opcode, ...modifiers].join(".");
  let nearest = found.get(text);
  if (nearest === undefined) found.set(text, nearest = { text, ...find(opcode, modifiers) });
  return nearest;
}

function find(opcode: string, modifiers: readonly string[]): Omit<NearestRow, "text"> {
  const rows = (rowsByOpcode ??= groupRows()).get(opcode) ?? [];
  const hasOnlyHints = rows.every(({ traits }) => traits.hasNoEffect);
  let nearest: InstructionRow | undefined;
  let furthest = -1;
  for (const row of rows) {
    const match = matchForm(row, modifiers);
    if (match.matched) return { row, choices: match.choices, ...typesIn(match.choices) };
    if (match.at <= furthest || (row.traits.hasNoEffect && !hasOnlyHints)) continue;
    furthest = match.at;
    nearest = row;
  }
  const choices = choicesNear(nearest, modifiers);
  return { row: nearest, choices, ...typesIn(choices) };
}

/** Assigns modifiers to the slots of a form. A modifier that fits no slot is added under its own name. */
function choicesNear(form: InstructionRow | undefined, modifiers: readonly string[]): ReadonlyMap<string, string> {
  const choices = new Map<string, string>();
  for (const modifier of modifiers) {
    const slot = form?.slots.find(({ name, choices: allowed }) => allowed.has(modifier) && !choices.has(name));
    choices.set(slot?.name ?? modifier, modifier);
  }
  return choices;
}

function typesIn(choices: ReadonlyMap<string, string>): Pick<ResolvedForm, "type" | "sourceType"> {
  const type = scalarTypes.get(choices.get("type") ?? "") ?? typeNamed("b32");
  return { type, sourceType: scalarTypes.get(choices.get("from") ?? "") ?? type };
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
    matrixProductRows,
    warpgroupProductRows,
    atomicRows,
    videoRows,
    packedVideoRows,
    miscellaneousRows,
    textureRows,
  ];
  const rows = families.flatMap((family) => Object.values(family()).flat() as InstructionRow[]);
  return Map.groupBy(rows, ({ opcode }) => opcode);
}
