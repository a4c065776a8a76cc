/**
 * An operation of the table, and the patterns that the table is written in.
 *
 * @module
 */

/** An operation to try, in a kernel of its own or as a step of a random program. */
export interface Operation {
  /** The text; also says which operands have registers wider or narrower than usual. */
  readonly name: string;
  /**
   * One or more instructions, separated by semicolons. `d` is the result; `a`, `b`, `c` and `e` are the operands;
   * `t16_0`, `t32_0`, `t64_0`, `tp0` and so on are scratch registers. `own`, `cell` and `frame` are the addresses of 16
   * bytes in shared, global and local memory that each thread has for itself. `THREADS` is the number of threads of a
   * block.
   */
  readonly text: string;
  readonly result: OperandType;
  readonly operands: readonly OperandType[];
  /** Whether all threads of the block must execute the operation together. */
  readonly isUniform: boolean;
  /** All operations of a family share the probability of being picked for a random program. */
  readonly family: string;
}

/** The type of an operand: the values to try, and the register that holds them. */
export interface OperandType {
  /** A PTX type, or the name of a set of values in `operands.ts`. */
  readonly name: string;
  /** The width of the register; 1 for a predicate. */
  readonly bits: RegisterBits;
}

/** The widths of registers. */
export type RegisterBits = 1 | 16 | 32 | 64;

const registerBits: Readonly<Record<string, RegisterBits>> = {
  pred: 1,
  u8: 32,
  s8: 32,
  f16x2: 32,
  bf16x2: 32,
  u16x2: 32,
  s16x2: 32,
  tf32: 32,
  e4m3x2: 16,
  e5m2x2: 16,
  amount: 32,
  place: 32,
  lane: 32,
  clamp: 32,
  selector: 32,
  few: 32,
};

/** Parses `"f32"`; `"u8@16"`, which sets the width of the register; or the name of a set of values. */
export function operandType(text: string): OperandType {
  const [name = "", width] = text.split("@");
  const bits = width === undefined ? registerBits[name] ?? Number(/\d+$/.exec(name)?.[0]) : Number(width);
  if (bits !== 1 && bits !== 16 && bits !== 32 && bits !== 64) throw new RangeError(`No operand type "${text}"`);
  return { name, bits };
}

/**
 * Returns all operations that a pattern stands for.
 *
 * `<rn|rz>` stands for each of the two choices, and `<.ftz|>` for the modifier or nothing. A named choice, such as
 * `<T:u32|u64>`, also replaces its name wherever the name occurs as a word in the pattern or the signature. `$T` stands
 * for the digits of the choice.
 *
 * @param signature The types of the result and of the operands: `"T T T"`.
 */
export function expandPattern(pattern: string, signature: string): { text: string; types: OperandType[] }[] {
  const match = /<(?:(\w+):)?([^<>]*)>/.exec(pattern);
  if (match === null) {
    return [{ text: pattern, types: signature.split(" ").map(operandType) }];
  }
  const [whole, name, choices] = match;
  return choices!.split("|").flatMap((choice) => {
    let rest = pattern.slice(0, match.index) + choice + pattern.slice(match.index + whole.length);
    let types = signature;
    if (name !== undefined) {
      const digits = /\d+/.exec(choice)?.[0] ?? "";
      const put = (text: string) =>
        text.replaceAll(`$${name}`, digits).replaceAll(new RegExp(`(?<![\\w<])${name}(?![\\w:])`, "g"), choice);
      rest = put(rest);
      types = put(types);
    }
    return expandPattern(rest, types);
  });
}

/** Replaces the names of operands by registers or immediates. */
export function writeOperation(
  text: string,
  names: Readonly<Record<string, string>>,
): string[] {
  return text.split(";").map((instruction) => {
    const [head = "", ...rest] = instruction.trim().split(" ");
    const put = (part: string) => part.replaceAll(/(?<![.\w%])[a-zA-Z]\w*/g, (word) => names[word] ?? word);
    return [head.startsWith("@") ? put(head) : head, ...rest.map(put)].join(" ") + ";";
  });
}
