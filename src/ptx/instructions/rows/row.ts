/**
 * What rows of several families have in common: how a row is written, alternatives of modifiers, and traits.
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

/** The rows of a family, by names. Those that only differ in how they are written have one name. */
export type Rows<Name extends string> = Readonly<Record<Name, InstructionRow | readonly InstructionRow[]>>;

/** A row. Parses its syntax on first use: there are hundreds of rows, and a program has few of them. */
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

/** A value that is made on first use, because programs that need no rows import them, too. */
export function onFirstUse<Made>(make: () => Made): () => Made {
  let made: Made | undefined;
  return () => made ??= make();
}

/** A row: syntax, section of the manual, and traits. */
export function row(syntax: string, section: string, traits: InstructionTraits, flow?: Flow): InstructionRow {
  return new WrittenRow(syntax, section, { traits, flow });
}

/** A row with a cache policy as its last operand. */
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

/** A hint, which no program can observe. */
export const hint: InstructionTraits = { ...pure, hasNoEffect: true };
export const orderingFence: InstructionTraits = { ...pure, effects: ["orders"] };
