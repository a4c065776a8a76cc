/**
 * What the table of operations is made of.
 *
 * @module
 */

/** One operation to try, in a kernel of its own or as a step of a random program. */
export interface Operation {
  /** Its text: one or several instructions, separated by semicolons. */
  readonly name: string;
  /**
   * The instructions. `d` is the result and `a`, `b`, `c` and `e` the operands; `t16_0`, `t32_0`, `t64_0`, `tp0` and so on
   * are scratch registers; `own` is the address in shared memory, `cell` that in global memory and `frame` that in local
   * memory of 16 bytes that are the thread's alone; `THREADS` is the number of threads in a block.
   */
  readonly text: string;
  readonly result: OperandType;
  readonly operands: readonly OperandType[];
  /** Whether all threads of the block must execute it together. */
  readonly isUniform: boolean;
  /** Operations of one family share the chance of one to be picked for a random program. */
  readonly family: string;
}

/** The type of an operand: which values are tried, and the register that holds them. */
export interface OperandType {
  /** A PTX type, or the name of a set of values: see `operands.ts`. */
  readonly name: string;
  /** The width of the register, 1 for a predicate. */
  readonly bits: RegisterBits;
}

/** The widths that registers have. */
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

/** Reads `"f32"`, `"u8@16"`, where the register is another than the usual one, or the name of a set of values. */
export function operandType(text: string): OperandType {
  const [name = "", width] = text.split("@");
  const bits = width === undefined ? registerBits[name] ?? Number(/\d+$/.exec(name)?.[0]) : Number(width);
  if (bits !== 1 && bits !== 16 && bits !== 32 && bits !== 64) throw new RangeError(`There is no type "${text}"`);
  return { name, bits };
}

/**
 * All operations that a pattern stands for.
 *
 * `<rn|rz>` stands for either, `<.ftz|>` for either or nothing. A choice with a name, as `<T:u32|u64>`, puts what was
 * chosen wherever the name stands alone in the pattern or the signature, and `$T` stands for the digits in it.
 *
 * @param signature the types of the result and of the operands: `"T T T"`
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

/** Puts registers, or immediates, in the place of the operands' names. */
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
