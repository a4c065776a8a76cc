/**
 * Helpers to write rows of the instruction table, and modifier alternatives and traits that several families share.
 *
 * @module
 */
import {
  type ModifierSlot,
  readHasResult,
  readOpcode,
  readOperands,
  readSlots,
  readTakesSelectors,
} from "../form_syntax.ts";
import { type Flow, type InstructionRow, type InstructionTraits, pure } from "../instruction_traits.ts";

/** The instruction table's rows for a group of instructions, by name. Rows that differ only in syntax share a name. */
export type Rows<Name extends string> = Readonly<Record<Name, InstructionRow | readonly InstructionRow[]>>;

/** A row whose syntax is parsed on first use: there are hundreds of rows, and a program uses few of them. */
export class WrittenRow<Traits extends InstructionTraits = InstructionTraits> implements InstructionRow {
  readonly syntax: string;
  readonly section: string;
  readonly flow: Flow | undefined;
  readonly traits: Traits;
  #opcode: string | undefined;
  #slots: readonly ModifierSlot[] | undefined;
  #hasResult: boolean | undefined;
  #takesSelectors: boolean | undefined;
  #operands: readonly [minimum: number, maximum: number] | undefined;

  constructor(
    syntax: string,
    section: string,
    { traits, flow }: { traits: Traits; flow: Flow | undefined },
  ) {
    this.syntax = syntax;
    this.section = section;
    this.traits = traits;
    this.flow = flow;
  }

  get opcode(): string {
    return this.#opcode ??= readOpcode(this.syntax);
  }

  get slots(): readonly ModifierSlot[] {
    return this.#slots ??= readSlots(this.syntax);
  }

  get hasResult(): boolean {
    return this.#hasResult ??= readHasResult(this.syntax);
  }

  get takesSelectors(): boolean {
    return this.#takesSelectors ??= readTakesSelectors(this.syntax);
  }

  get operands(): readonly [minimum: number, maximum: number] {
    return this.#operands ??= readOperands(this.syntax);
  }
}

/**
 * Returns a function that creates a value on its first call. Programs that need no rows import these modules, too, and
 * should not spend time on creating rows.
 */
export function onFirstUse<Made>(make: () => Made): () => Made {
  let made: Made | undefined;
  return () => made ??= make();
}

/** Creates a row. `section` is the section of the PTX ISA manual. */
export function row(syntax: string, section: string, traits: InstructionTraits, flow?: Flow): InstructionRow {
  return new WrittenRow(syntax, section, { traits, flow });
}

/** Returns a copy of a row with the modifier `.L2::cache_hint` and a cache policy as the last operand. */
export function withPolicy({ syntax, section, traits }: InstructionRow): InstructionRow {
  const space = syntax.indexOf(" ");
  const hinted = `${syntax.slice(0, space)}.L2::cache_hint${syntax.slice(space)}, policy`;
  return row(hinted, section, { ...traits, takesPolicy: true });
}

export const signed = "<type:s16|s32|s64>";
export const bits = "<type:b16|b32|b64>";
export const wideBits = "<type:b32|b64>";
export const selected = "<type:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64>";
export const scope = "<scope:cta|cluster|gpu|sys>?";

/** The traits of a performance hint, which has no observable effect. */
export const performanceHint: InstructionTraits = { ...pure, hasNoEffect: true };
export const orderingFence: InstructionTraits = { ...pure, effects: ["orders"] };
