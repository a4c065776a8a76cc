/**
 * Random programs whose lanes exchange values through memory without any barrier, and a model that runs the lanes of
 * each warp in lockstep, as a GPU does.
 *
 * The lanes of a warp use words of their own warp only. On the two ways of a branch, lanes use different arrays, because
 * a GPU may run either way first.
 *
 * @module
 */
import { Random } from "../../differential/random.ts";

/** Where a lane reads or writes, as a number of one of the words that its warp has in an array. */
type Place =
  /** The lane's number plus a constant, which may go past the lanes' own words. */
  | { readonly kind: "beside"; readonly by: number }
  /** The lane's number times an odd number plus a constant, modulo 32. */
  | { readonly kind: "permuted"; readonly factor: number; readonly by: number }
  | { readonly kind: "crossed"; readonly by: number }
  /** The low bits of a register. */
  | { readonly kind: "computed"; readonly register: number };

interface Access {
  readonly array: number;
  readonly place: Place;
  readonly isVolatile: boolean;
}

type Statement =
  | {
    readonly kind: "compute";
    readonly operation: "add" | "xor" | "mul";
    readonly to: number;
    readonly a: number;
    readonly b: number;
  }
  | { readonly kind: "store"; readonly access: Access; readonly register: number }
  | { readonly kind: "load"; readonly access: Access; readonly to: number }
  | {
    readonly kind: "atomic";
    readonly operation: "add" | "exch" | "max";
    readonly access: Access;
    readonly to: number;
    readonly register: number;
  }
  /** A call of a function that stores and then loads. */
  | { readonly kind: "call"; readonly stored: Access; readonly loaded: Access; readonly register: number }
  | {
    readonly kind: "if";
    readonly register: number;
    readonly bit: number;
    readonly isOutOfLine: boolean;
    readonly taken: readonly Statement[];
    readonly otherwise: readonly Statement[];
  }
  | {
    readonly kind: "loop";
    readonly trips: number | { readonly register: number };
    readonly body: readonly Statement[];
  }
  | { readonly kind: "shuffle"; readonly register: number; readonly by: number }
  | { readonly kind: "barrier" };

/** A random program. */
export interface ExchangeProgram {
  readonly ptx: string;
  readonly block: readonly [x: number, y: number, z: number];
  readonly threads: number;
  /** Whether the parameter `second` must point to the same memory as `first`. */
  readonly isAliased: boolean;
  /** The bytes of each of the two buffers, and those of the output. */
  readonly bufferBytes: number;
  readonly outputBytes: number;
  /** What the model says that the output contains, and the buffers. */
  expected(): { readonly output: Uint32Array; readonly buffers: readonly Uint32Array[] };
}

const registerCount = 6;
/** The words of a warp in an array: 16 before those that lanes usually use, and some behind. */
const wordsOfWarp = 96;
const before = 16;
/** Two arrays in shared memory, and two in global memory. */
const arrayCount = 4;
const sharedArrays = 2;
/** Every warp has at least eight lanes, which write all of its words before the program begins. */
const initialWords = [0, 8, 16, 24, 32, 40];
const blocks: readonly (readonly [number, number, number])[] = [
  [32, 1, 1],
  [64, 1, 1],
  [128, 1, 1],
  [48, 1, 1],
  [20, 1, 1],
  [16, 1, 1],
  [16, 4, 1],
  [8, 8, 1],
  [32, 2, 1],
  [4, 2, 8],
  [1000, 1, 1],
];

/**
 * Returns the program of a seed.
 *
 * @param staysTogether whether lanes never part, and all accesses are volatile. On an H200, lanes that have parted may
 * stay apart behind the join of their ways, and ptxas moves other accesses past each other if their own lane does not
 * notice.
 */
export function exchangeProgram(
  seed: number,
  { staysTogether = false }: { staysTogether?: boolean } = {},
): ExchangeProgram {
  return new ProgramWriter(seed, staysTogether).write();
}

class ProgramWriter {
  readonly #random: Random;
  readonly #staysTogether: boolean;
  readonly #block: readonly [number, number, number];
  readonly #isAliased: boolean;
  readonly #calls: boolean;
  readonly #lines: string[] = [];
  readonly #behind: string[][] = [];
  #labels = 0;
  /** The loops around the code that is being written. */
  #loops = 0;

  constructor(seed: number, staysTogether: boolean) {
    this.#random = new Random(seed);
    this.#staysTogether = staysTogether;
    this.#block = this.#random.pick(blocks);
    this.#isAliased = this.#random.percent(20);
    this.#calls = this.#random.percent(25);
  }

  write(): ExchangeProgram {
    const block = this.#block;
    const threads = block[0] * block[1] * block[2];
    const warps = Math.ceil(threads / 32);
    const statements = this.#statements(6 + this.#random.below(14), {
      arrays: Array.from({ length: arrayCount }, (_, array) => array),
      depth: 0,
    });
    for (const statement of statements) this.#emit(statement, this.#lines);
    const isAliased = this.#isAliased;
    const bytes = 4 * wordsOfWarp * warps;
    return {
      ptx: this.#staysTogether
        ? this.#text(bytes).replaceAll(/\b(ld|st)(?=\.(?:shared|global)?\.?u32)/g, "$1.volatile")
        : this.#text(bytes),
      block,
      threads,
      isAliased,
      bufferBytes: bytes,
      outputBytes: threads * 4 * (registerCount + sharedArrays),
      expected: () => runInLockstep(statements, { threads, isAliased }),
    };
  }

  #statements(count: number, context: { arrays: readonly number[]; depth: number }): Statement[] {
    return Array.from({ length: count }, () => this.#statement(context));
  }

  #statement({ arrays, depth }: { arrays: readonly number[]; depth: number }): Statement {
    const random = this.#random;
    const register = () => random.below(registerCount);
    const kind = random.below(depth === 0 ? 100 : 90);
    if (kind < 15) {
      const operation = random.pick(["add", "xor", "mul"] as const);
      return { kind: "compute", operation, to: register(), a: register(), b: register() };
    }
    if (arrays.length > 0 && kind < 38) return { kind: "store", access: this.#access(arrays), register: register() };
    if (arrays.length > 0 && kind < 62) {
      return { kind: "load", access: this.#access(arrays, { writes: false }), to: register() };
    }
    if (arrays.length > 0 && kind < 68) {
      const operation = random.pick(["add", "exch", "max"] as const);
      return { kind: "atomic", operation, access: this.#access(arrays), to: register(), register: register() };
    }
    if (arrays.length > 0 && kind < 72 && this.#calls) {
      return {
        kind: "call",
        stored: this.#access(arrays),
        loaded: this.#access(arrays, { writes: false }),
        register: register(),
      };
    }
    if (kind < 80 && depth < 3 && !this.#staysTogether) {
      // The aliased arrays 2 and 3 count as one.
      const isTaken = arrays.map(() => random.percent(50));
      const side = (way: boolean) =>
        arrays.filter((array, index) =>
          (this.#isAliased && array === 3 ? isTaken[arrays.indexOf(2)] ?? isTaken[index] : isTaken[index]) === way
        );
      return {
        kind: "if",
        register: register(),
        bit: random.below(5),
        isOutOfLine: random.percent(40),
        taken: this.#statements(1 + random.below(4), { arrays: side(true), depth: depth + 1 }),
        otherwise: random.percent(50)
          ? this.#statements(1 + random.below(4), { arrays: side(false), depth: depth + 1 })
          : [],
      };
    }
    if (kind < 90 && depth < 3) {
      const trips = this.#staysTogether || random.percent(50) ? 1 + random.below(3) : { register: register() };
      this.#loops++;
      const body = this.#statements(1 + random.below(4), { arrays, depth: depth + 1 });
      this.#loops--;
      return { kind: "loop", trips, body };
    }
    if (depth === 0 && kind >= 90) {
      return kind < 96 ? { kind: "shuffle", register: register(), by: random.below(32) } : { kind: "barrier" };
    }
    return { kind: "compute", operation: "add", to: register(), a: register(), b: register() };
  }

  /** An access. Lanes write to different words: which of several lanes is the last, a GPU does not say. */
  #access(arrays: readonly number[], { writes = true } = {}): Access {
    const random = this.#random;
    const kind = random.below(writes ? 8 : 10);
    const place: Place = kind < 4
      ? { kind: "beside", by: random.percent(30) ? 0 : random.below(32) - 16 }
      : kind < 6
      ? { kind: "permuted", factor: 2 * random.below(16) + 1, by: random.below(32) }
      : kind < 8
      ? { kind: "crossed", by: random.below(32) }
      : { kind: "computed", register: random.below(registerCount) };
    // The order of plain stores in loops is not kept if their addresses cannot be compared.
    return { array: random.pick(arrays), place, isVolatile: this.#loops > 0 || random.percent(20) };
  }

  #emit(statement: Statement, lines: string[]): void {
    switch (statement.kind) {
      case "compute": {
        const operation = { add: "add.u32", xor: "xor.b32", mul: "mul.lo.u32" }[statement.operation];
        lines.push(`${operation} r${statement.to}, r${statement.a}, r${statement.b};`);
        if (statement.operation === "mul") lines.push(`add.u32 r${statement.to}, r${statement.to}, lane;`);
        break;
      }
      case "store": {
        const { address, space } = this.#address(statement.access, lines);
        lines.push(
          `st${statement.access.isVolatile ? ".volatile" : ""}.${space}.u32 ${address}, r${statement.register};`,
        );
        break;
      }
      case "load": {
        const { address, space } = this.#address(statement.access, lines);
        lines.push(`ld${statement.access.isVolatile ? ".volatile" : ""}.${space}.u32 r${statement.to}, ${address};`);
        break;
      }
      case "atomic": {
        const { address, space } = this.#address(statement.access, lines);
        const { operation, to, register } = statement;
        const type = operation === "exch" ? "b32" : "u32";
        lines.push(`atom.${space}.${operation}.${type} r${to}, ${address}, r${register};`);
        break;
      }
      case "call":
        for (const [access, name] of [[statement.stored, "stored"], [statement.loaded, "loaded"]] as const) {
          const { address, space, offset } = this.#address(access, lines);
          const base = address.slice(1, -1).replace(/[+-].*/, "");
          if (space === "shared") lines.push(`cvt.u64.u32 ${name}, ${base};`, `cvta.shared.u64 ${name}, ${name};`);
          else lines.push(`mov.u64 ${name}, ${base};`);
          lines.push(`add.s64 ${name}, ${name}, ${offset};`);
        }
        lines.push(
          "{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b32 d;",
          `st.param.b64 [a], stored; st.param.b64 [b], loaded; st.param.b32 [c], r${statement.register};`,
          "call.uni (d), swap, (a, b, c);",
          `ld.param.b32 r${statement.register}, [d]; }`,
        );
        break;
      case "if": {
        const [other, join] = [this.#label(), this.#label()];
        const { register, bit, taken, otherwise, isOutOfLine } = statement;
        lines.push(`and.b32 t, r${register}, ${1 << bit};`, "setp.eq.u32 p, t, 0;", `@p bra ${other};`);
        for (const inner of taken) this.#emit(inner, lines);
        const apart = isOutOfLine ? [] : lines;
        if (!isOutOfLine) lines.push(`bra ${join};`);
        else this.#behind.push(apart);
        apart.push(`${other}:`);
        for (const inner of otherwise) this.#emit(inner, apart);
        if (isOutOfLine) apart.push(`bra ${join};`);
        lines.push(`${join}:`);
        break;
      }
      case "loop": {
        const [again, end] = [this.#label(), this.#label()];
        const counter = `count${this.#labels}`;
        const { trips, body } = statement;
        lines.push(`.reg .u32 ${counter};`);
        if (typeof trips === "number") lines.push(`mov.u32 ${counter}, ${trips};`);
        else lines.push(`and.b32 ${counter}, r${trips.register}, 3;`);
        lines.push(`${again}:`, `setp.eq.u32 p, ${counter}, 0;`, `@p bra ${end};`);
        for (const inner of body) this.#emit(inner, lines);
        lines.push(`sub.u32 ${counter}, ${counter}, 1;`, `bra ${again};`, `${end}:`);
        break;
      }
      case "shuffle":
        lines.push(`shfl.sync.bfly.b32 r${statement.register}, r${statement.register}, ${statement.by}, 31, -1;`);
        break;
      case "barrier":
        lines.push("bar.sync 0;");
        break;
    }
  }

  #label(): string {
    return `L${this.#labels++}`;
  }

  #address({ array, place }: Access, lines: string[]): { address: string; space: string; offset: number } {
    const isShared = array < sharedArrays;
    const base = `${isShared ? "shared" : "global"}${array}`;
    const space = isShared ? "shared" : "global";
    const multiply = (word: string) => {
      const bits = isShared ? 32 : 64;
      const wide = isShared ? "lo" : "wide";
      const name = `address${array}`;
      lines.push(`mul.${wide}.u32 ${name}, ${word}, 4;`, `add.u${bits} ${name}, ${name}, ${base};`);
      return name;
    };
    switch (place.kind) {
      case "beside": {
        const name = this.#random.percent(50) ? `own${array}` : multiply("lane");
        return { address: `[${name}+${4 * place.by}]`, space, offset: 4 * place.by };
      }
      case "permuted":
        lines.push(`mad.lo.u32 t, lane, ${place.factor}, ${place.by};`, "and.b32 t, t, 31;");
        return { address: `[${multiply("t")}]`, space, offset: 0 };
      case "crossed":
        lines.push(`xor.b32 t, lane, ${place.by};`);
        return { address: `[${multiply("t")}]`, space, offset: 0 };
      case "computed":
        lines.push(`and.b32 t, r${place.register}, 31;`);
        return { address: `[${multiply("t")}]`, space, offset: 0 };
    }
  }

  #text(bytes: number): string {
    const names = Array.from({ length: arrayCount }, (_, array) => array);
    const isShared = (array: number) => array < sharedArrays;
    const perThread = registerCount + sharedArrays;
    return `.version 7.0
.target sm_70
.address_size 64
.func (.param .b32 d) swap(.param .b64 a, .param .b64 b, .param .b32 c) {
  .reg .b64 %a<2>;
  .reg .b32 %v;
  ld.param.b64 %a0, [a];
  ld.param.b64 %a1, [b];
  ld.param.b32 %v, [c];
  st.u32 [%a0], %v;
  ld.u32 %v, [%a1];
  st.param.b32 [d], %v;
  ret;
}
.visible .entry test(.param .u64 out, .param .u64 first, .param .u64 second) {
  .reg .pred p;
  .reg .b32 t, lane, warp, thread, r<${registerCount}>;
  .reg .b64 output, stored, loaded, wide;
${
      names.map((array) =>
        `  .reg .${isShared(array) ? "b32" : "b64"} ${
          isShared(array) ? "shared" : "global"
        }${array}, own${array}, address${array};`
      ).join("\n")
    }
${names.filter(isShared).map((array) => `  .shared .align 4 .b8 array${array}[${bytes}];`).join("\n")}
  mov.u32 thread, %tid.z;
  mov.u32 t, %ntid.y;
  mov.u32 lane, %tid.y;
  mad.lo.u32 thread, thread, t, lane;
  mov.u32 t, %ntid.x;
  mov.u32 lane, %tid.x;
  mad.lo.u32 thread, thread, t, lane;
  ${this.#random.percent(50) ? "mov.u32 lane, %laneid;" : "and.b32 lane, thread, 31;"}
  shr.u32 warp, thread, 5;
  ld.param.u64 output, [out];
  mad.wide.u32 output, thread, ${4 * perThread}, output;
${
      names.map((array) => {
        const skip = 4 * wordsOfWarp;
        return isShared(array)
          ? `  mov.u32 shared${array}, array${array};
  mad.lo.u32 shared${array}, warp, ${skip}, shared${array};
  add.u32 shared${array}, shared${array}, ${4 * before};
  mad.lo.u32 own${array}, lane, 4, shared${array};
  st.shared.u32 [own${array}], thread;
${initialWords.map((word) => `  st.shared.u32 [own${array}+${4 * (word - before)}], ${word};`).join("\n")}`
          : `  ld.param.u64 global${array}, [${array === 2 ? "first" : "second"}];
  mul.wide.u32 wide, warp, ${skip};
  add.u64 global${array}, global${array}, wide;
  add.u64 global${array}, global${array}, ${4 * before};
  mul.wide.u32 wide, lane, 4;
  add.u64 own${array}, global${array}, wide;`;
      }).join("\n")
    }
${
      Array.from({ length: registerCount }, (_, index) =>
        `  mad.lo.u32 r${index}, thread, ${2 * index + 3}, ${index * 0x1234567};`).join("\n")
    }
${this.#lines.map((line) => line.endsWith(":") ? line : `  ${line}`).join("\n")}
${Array.from({ length: registerCount }, (_, index) => `  st.global.u32 [output+${4 * index}], r${index};`).join("\n")}
${
      names.filter(isShared).map((array) =>
        `  ld.shared.u32 t, [own${array}];
  st.global.u32 [output+${4 * (registerCount + array)}], t;`
      ).join("\n")
    }
  ret;
${this.#behind.map((lines) => lines.join("\n")).join("\n")}
}
`;
  }
}

/** Runs a program as the lanes of a GPU's warps run together. */
function runInLockstep(
  statements: readonly Statement[],
  { threads, isAliased }: { threads: number; isAliased: boolean },
): { output: Uint32Array; buffers: Uint32Array[] } {
  const warps = Math.ceil(threads / 32);
  const arrays = Array.from({ length: arrayCount }, () => new Uint32Array(warps * wordsOfWarp));
  if (isAliased) arrays[3] = arrays[2]!;
  const registers = Array.from({ length: threads }, (_, thread) => {
    return Uint32Array.from(
      { length: registerCount },
      (_, index) => Math.imul(thread, 2 * index + 3) + index * 0x1234567,
    );
  });
  const output = new Uint32Array(threads * (registerCount + sharedArrays));
  for (let warp = 0; warp < warps; warp++) {
    const lanes = Array.from({ length: Math.min(32, threads - 32 * warp) }, (_, lane) => lane);
    const of = (lane: number) => registers[32 * warp + lane]!;
    const wordOf = (lane: number, place: Place) => {
      const word = place.kind === "beside"
        ? lane + place.by
        : place.kind === "crossed"
        ? lane ^ place.by
        : place.kind === "permuted"
        ? Math.imul(lane, place.factor) + place.by & 31
        : of(lane)[place.register]! & 31;
      return wordsOfWarp * warp + before + word;
    };
    for (let array = 0; array < sharedArrays; array++) {
      for (const word of initialWords) {
        for (const lane of lanes) arrays[array]![wordsOfWarp * warp + word + lane] = word;
      }
    }
    const run = (statements: readonly Statement[], lanes: readonly number[]) => {
      for (const statement of statements) if (lanes.length > 0) step(statement, lanes);
    };
    const store = ({ array, place }: Access, lane: number, value: number) => {
      arrays[array]![wordOf(lane, place)] = value;
    };
    const load = ({ array, place }: Access, lane: number) => arrays[array]![wordOf(lane, place)]!;
    const step = (statement: Statement, lanes: readonly number[]): void => {
      switch (statement.kind) {
        case "compute":
          for (const lane of lanes) {
            const [a, b] = [of(lane)[statement.a]!, of(lane)[statement.b]!];
            of(lane)[statement.to] = statement.operation === "add"
              ? a + b
              : statement.operation === "xor"
              ? a ^ b
              : Math.imul(a, b) + lane;
          }
          break;
        case "store":
          for (const lane of lanes) store(statement.access, lane, of(lane)[statement.register]!);
          break;
        case "load": {
          for (const lane of lanes) of(lane)[statement.to] = load(statement.access, lane);
          break;
        }
        case "atomic":
          for (const lane of lanes) {
            const word = wordOf(lane, statement.access.place);
            const array = arrays[statement.access.array]!;
            const [old, value] = [array[word]!, of(lane)[statement.register]!];
            array[word] = statement.operation === "add"
              ? old + value
              : statement.operation === "exch"
              ? value
              : Math.max(old, value);
            of(lane)[statement.to] = old;
          }
          break;
        case "call": {
          const words = lanes.map((lane) => wordOf(lane, statement.loaded.place));
          for (const lane of lanes) store(statement.stored, lane, of(lane)[statement.register]!);
          lanes.forEach((lane, index) => {
            of(lane)[statement.register] = arrays[statement.loaded.array]![words[index]!]!;
          });
          break;
        }
        case "if": {
          const holds = (lane: number) => (of(lane)[statement.register]! >>> statement.bit & 1) === 1;
          const taken = lanes.filter(holds);
          const otherwise = lanes.filter((lane) => !holds(lane));
          run(statement.taken, taken);
          run(statement.otherwise, otherwise);
          break;
        }
        case "loop": {
          const { trips, body } = statement;
          const counts = new Map(
            lanes.map((lane) => [lane, typeof trips === "number" ? trips : of(lane)[trips.register]! & 3]),
          );
          for (let round = 0;; round++) {
            const left = lanes.filter((lane) => round < counts.get(lane)!);
            if (left.length === 0) break;
            run(body, left);
          }
          break;
        }
        case "shuffle": {
          const values = lanes.map((lane) => of(lane)[statement.register]!);
          for (const lane of lanes) {
            const source = lane ^ statement.by;
            // A lane that does not exist gives 0.
            of(lane)[statement.register] = values[source] ?? 0;
          }
          break;
        }
        case "barrier":
          break;
      }
    };
    run(statements, lanes);
    for (const lane of lanes) {
      const begin = (32 * warp + lane) * (registerCount + sharedArrays);
      output.set(of(lane), begin);
      for (let array = 0; array < sharedArrays; array++) {
        output[begin + registerCount + array] = arrays[array]![wordOf(lane, { kind: "beside", by: 0 })]!;
      }
    }
  }
  return { output, buffers: arrays.slice(sharedArrays) };
}
