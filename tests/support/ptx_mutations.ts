/**
 * Mutations of PTX source. Each splits the source into words and changes some. The result is usually malformed.
 */

/** Random numbers that are the same in every run. */
export interface Random {
  /** Returns an integer from 0 to `limit` - 1. */
  below(limit: number): number;
  pick<Item>(items: readonly Item[]): Item;
}

/** Returns a generator for a source by its name, so that the numbers do not depend on how many sources there are. */
export function randomFor(name: string): Random {
  let state = 0x811c_9dc5;
  for (const character of name) state = Math.imul(state ^ character.codePointAt(0)!, 0x0100_0193);
  const below = (limit: number): number => {
    state = state + 0x9e37_79b9 | 0;
    let mixed = Math.imul(state ^ state >>> 16, 0x85eb_ca6b);
    mixed = Math.imul(mixed ^ mixed >>> 13, 0xc2b2_ae35);
    return ((mixed ^ mixed >>> 16) >>> 0) % limit;
  };
  return { below, pick: (items) => items[below(items.length)]! };
}

/** Splits a string into words, numbers, single punctuation marks and runs of white space, without omissions. */
export function wordsOf(text: string): string[] {
  return text.match(/[\w$%.]+|\s+|[^\w\s]/g)!;
}

/** Changes the words in place. `vocabulary` has words of this and other sources. */
type Mutation = (words: string[], options: { random: Random; vocabulary: readonly string[] }) => void;

const numbers = [
  "0",
  "-1",
  "1",
  "31",
  "64",
  "65535",
  "2147483647",
  "-2147483648",
  "4294967295",
  "4294967296",
  "0x7FFFFFFFFFFFFFFF",
  "0xFFFFFFFFFFFFFFFF",
  "18446744073709551616",
  "-9223372036854775809",
  "99999999999999999999999999999999999999999999",
  "0f7FC00001",
  "0d7FF0000000000000",
  "1e400",
  "08",
];
const types = (".pred .b8 .b16 .b32 .b64 .b128 .u8 .u16 .u32 .u64 .s8 .s16 .s32 .s64 .f16 .f16x2 .bf16 .f32 .f64 .v2 " +
  ".v4 .v8").split(" ");
const opcodes =
  ("abs activemask add addc alloca and atom bar barrier bfe bfi bfind bra brev brx call clz cnot copysign " +
    "cvt cvta div dp2a dp4a ex2 exit fma isspacep ld lop3 mad madc match membar min mov mul nanosleep neg not or popc " +
    "prmt rcp red redux rem ret rsqrt sad selp set setp shf shfl shl sin slct sqrt st stackrestore stacksave sub subc " +
    "tanh testp trap vote xor").split(" ");
const marks = [...'{}()[]<>,;:@!|=+-_%."/*\\#\0\r\u00e9\u{1f600}\ud800', "//", "/*", "*/", "::", "@!", "\n"];

/** By name, for the messages of failed tests. */
const mutations: Readonly<Record<string, Mutation>> = {
  "a word left out": (words, { random }) => {
    words.splice(random.below(words.length), 1);
  },
  "a word twice": (words, { random }) => {
    const at = random.below(words.length);
    words.splice(at, 0, words[at]!);
  },
  "two words swapped": (words, { random }) => {
    const first = random.below(words.length);
    const second = random.below(words.length);
    [words[first], words[second]] = [words[second]!, words[first]!];
  },
  "a word of another text": (words, { random, vocabulary }) => {
    words[random.below(words.length)] = random.pick(vocabulary);
  },
  "a word of another text put in": (words, { random, vocabulary }) => {
    words.splice(random.below(words.length), 0, random.pick(vocabulary));
  },
  "another number": (words, { random }) => {
    replaceOne(words, { random, pattern: /^-?\d[\w.]*$/, by: () => random.pick(numbers) });
  },
  "another number in a name": (words, { random }) => {
    replaceOne(words, { random, pattern: /\D\d+$/, by: (word) => word.replace(/\d+$/, String(random.below(70000))) });
  },
  "another type": (words, { random }) => {
    replaceOne(words, {
      random,
      pattern: /\.[bfsu]\d+/,
      by: (word) => word.replace(/\.[bfsu]\d+(?:x2)?/, () => random.pick(types)),
    });
  },
  "another opcode": (words, { random }) => {
    replaceOne(words, { random, pattern: /^[a-z]\w*\./, by: (word) => word.replace(/^\w+/, random.pick(opcodes)) });
  },
  "modifiers of another instruction": (words, { random, vocabulary }) => {
    const modifiers = random.pick(vocabulary).replace(/^[^.]*/, "");
    replaceOne(words, { random, pattern: /^[a-z]\w*\./, by: (word) => word.replace(/\..*/, modifiers) });
  },
  "an unbalanced bracket": (words, { random }) => {
    replaceOne(words, { random, pattern: /^[{}()[\]]$/, by: () => random.pick(["", "{", "}", "{{", "}}", "(", "]"]) });
  },
  "a label twice": (words, { random }) => {
    const labels = words.filter((word, index) => words[index + 1] === ":" && /^[$\w]/.test(word));
    if (labels.length === 0) return;
    words.splice(lineStart(words, random), 0, `${random.pick(labels)}: `);
  },
  "a branch elsewhere": (words, { random }) => {
    const labels = words.filter((word) => /^\$L/.test(word));
    if (labels.length > 0) replaceOne(words, { random, pattern: /^\$L/, by: () => random.pick(labels) });
  },
  "a line elsewhere": (words, { random }) => {
    const at = lineStart(words, random);
    const end = words.findIndex((word, index) => index > at && word.includes("\n"));
    const line = words.splice(at, Math.max(0, end - at));
    words.splice(lineStart(words, random), 0, ...line, "\n");
  },
  "characters that do not belong": (words, { random }) => {
    const at = random.below(words.length);
    const word = words[at]!;
    const cut = random.below(word.length + 1);
    const character = random.below(2) === 0 ? random.pick(marks) : String.fromCharCode(random.below(0x180));
    words[at] = word.slice(0, cut) + character + word.slice(cut);
  },
  "cut off": (words, { random }) => {
    const text = words.join("");
    const kept = text.slice(0, random.below(text.length));
    words.splice(0, words.length, kept);
  },
  "cut out": (words, { random }) => {
    words.splice(random.below(words.length), random.below(40));
  },
};

/** Replaces the first matching word, searching from a random word on. */
function replaceOne(
  words: string[],
  { random, pattern, by }: { random: Random; pattern: RegExp; by: (word: string) => string },
): void {
  const begin = random.below(words.length);
  for (let count = 0; count < words.length; count++) {
    const at = (begin + count) % words.length;
    if (!pattern.test(words[at]!)) continue;
    words[at] = by(words[at]!);
    return;
  }
}

function lineStart(words: readonly string[], random: Random): number {
  const begin = random.below(words.length);
  for (let at = begin; at < words.length; at++) {
    if (words[at]!.includes("\n")) return at + 1;
  }
  return words.length;
}

/** Applies one to three mutations in succession. */
export function mutate(
  words: readonly string[],
  options: { random: Random; vocabulary: readonly string[] },
): { text: string; applied: string[] } {
  const { random } = options;
  const changed = [...words];
  const applied: string[] = [];
  for (let count = 1 + random.below(3); count > 0 && changed.length > 0; count--) {
    const name = random.pick(Object.keys(mutations));
    mutations[name]!(changed, options);
    applied.push(name);
  }
  return { text: changed.join(""), applied };
}
