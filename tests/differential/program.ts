/**
 * Random programs: kernels of several dozen operations, with branches, loops and exchanges between threads.
 *
 * A program keeps its values in a few registers of each width. The registers start with the thread's own input and are
 * overwritten with results. Each step has a place in the output, where a thread stores the result each time it executes
 * the step.
 *
 * @module
 */
import { kernelText, loadRegister, ownBytes, storeRegister } from "./kernel_text.ts";
import { type OperandType, operandType, type Operation, type RegisterBits, writeOperation } from "./operation.ts";
import { allLanes, operations, videoFamilies } from "./operations.ts";
import { randomOperand } from "./operands.ts";
import { Random } from "./random.ts";
import type { Trial } from "./trial.ts";

/** A random program. */
export interface Program extends Trial {
  /** The steps, in the order of their places in the output. */
  readonly steps: readonly Step[];
  /** The output of a step begins at its index times this offset. Each thread has 8 bytes there. */
  readonly stepBytes: number;
  /**
   * The offset of the log, if the program keeps one, and the number of entries of {@linkcode logEntryBytes} for each
   * thread.
   */
  readonly log: { readonly begin: number; readonly entriesPerThread: number } | undefined;
}

/** A step of a program. */
export interface Step {
  readonly family: string;
  readonly name: string;
  readonly operands: readonly OperandType[];
  readonly result: OperandType;
}

/** The size of a log entry: the step's index plus one, the result, and up to four operands. */
export const logEntryBytes = 48;

const registers: ReadonlyMap<RegisterBits, readonly string[]> = new Map(
  ([[1, "p", 5], [16, "h", 6], [32, "r", 10], [64, "l", 6]] as const).map(([bits, letter, count]) =>
    [bits, Array.from({ length: count }, (_, index) => `${letter}${index}`)] as const
  ),
);

/** The types that inputs are drawn from, by the width of the register. */
const inputTypes: Readonly<Record<RegisterBits, readonly string[]>> = {
  1: ["pred"],
  16: ["u16", "f16", "bf16"],
  32: ["u32", "f32", "f32", "f16x2", "bf16x2", "amount"],
  64: ["u64", "f64"],
};

const wordsPerThread = 40;
const operandNames = ["a", "b", "c", "e"];

const families = Map.groupBy(operations, ({ family }) => family);
const isDivergent = (name: string) => !families.get(name)![0]!.isUniform;
const isVideo = (name: string) => name.startsWith(videoFamilies);
const familyNames = [...families.keys()].filter((name) => !isVideo(name));
const divergentFamilies = familyNames.filter(isDivergent);
const videoFamilyNames = [...families.keys()].filter(isVideo);

/** The seeds before this one were recorded before there were video instructions. */
const firstSeedWithVideo = 3000;

/**
 * Returns the program of a seed.
 *
 * @param options.keepsLog Whether each thread also logs every step that it executes, with the operands.
 */
export function randomProgram(
  seed: number,
  { kernelName = `program${seed}`, keepsLog = false }: { kernelName?: string; keepsLog?: boolean } = {},
): Program {
  return new ProgramWriter(seed).write(kernelName, keepsLog);
}

class ProgramWriter {
  readonly #random: Random;
  readonly #threads: number;
  /** Whether NaNs keep their bits after instructions for which the driver's compiler cannot have changed them. */
  readonly #keepsNaNs: boolean;
  readonly #hasVideo: boolean;
  readonly #lines: string[] = [];
  readonly #steps: Step[] = [];
  #labels = 0;
  #counters = 0;
  #keepsLog = false;
  /** How often the code that is being written may run; and the sum of that over all steps so far. */
  #times = 1;
  #logEntries = 0;

  constructor(seed: number) {
    this.#random = new Random(seed);
    this.#threads = this.#random.pick([32, 64]);
    this.#keepsNaNs = seed % 4 === 3;
    this.#hasVideo = seed >= firstSeedWithVideo;
  }

  write(kernelName: string, keepsLog: boolean): Program {
    const random = this.#random;
    const threads = this.#threads;
    this.#keepsLog = keepsLog;
    const input = this.#input();
    const all = [...registers].flatMap(([bits, names]) => names.map((name) => ({ bits, name })));
    all.forEach(({ bits, name }, index) => {
      this.#lines.push(...loadRegister(name, bits, `input+${(index % wordsPerThread) * 8}`));
    });
    const count = 30 + random.below(30);
    while (this.#steps.length < count) this.#statement(0);
    if (random.percent(20)) {
      this.#lines.push(`@${random.pick(registers.get(1)!)} exit;`);
      for (let rest = 0; rest < 3; rest++) this.#operation({ isUniform: false });
    }
    const stepBytes = threads * 8;
    const resultBytes = this.#steps.length * stepBytes;
    const ownBegin = resultBytes;
    const logBegin = ownBegin + threads * ownBytes;
    const entriesPerThread = this.#logEntries;
    const body = [
      `mad.wide.u32 input, thread, ${wordsPerThread * 8}, input;`,
      ...keepsLog
        ? [
          `add.u64 log, output, ${logBegin};`,
          `mad.wide.u32 log, thread, ${entriesPerThread * logEntryBytes}, log;`,
        ]
        : [],
      "mad.wide.u32 place, thread, 8, output;",
      ...this.#lines,
    ];
    const declarations = [
      "  .reg .b64 place, log;",
      "  .reg .b32 selected, mine, other;",
      "  .reg .pred again;",
      `  .shared .align 8 .b64 exchange[${threads}];`,
      "  .shared .align 8 .b64 common[8];",
      ...this.#counters === 0 ? [] : [`  .reg .b32 counter<${this.#counters}>;`],
      ...all.map(({ bits, name }) => `  .reg .${bits === 1 ? "pred" : `b${bits}`} ${name};`),
    ].join("\n");
    const logBytes = keepsLog ? threads * entriesPerThread * logEntryBytes : 0;
    return {
      kernelName,
      text: kernelText(kernelName, { body, threads, declarations, outputBytes: ownBegin }),
      input,
      outputBytes: logBegin + logBytes,
      resultBytes: keepsLog ? logBegin + logBytes : resultBytes,
      grid: 1,
      block: threads,
      steps: this.#steps,
      stepBytes,
      log: keepsLog ? { begin: logBegin, entriesPerThread } : undefined,
    };
  }

  #input(): Uint8Array<ArrayBuffer> {
    const random = this.#random;
    const widths = [...registers].flatMap(([bits, names]) => names.map(() => bits));
    const view = new DataView(new ArrayBuffer(this.#threads * wordsPerThread * 8));
    for (let word = 0; word < wordsPerThread; word++) {
      const type = operandType(random.pick(inputTypes[widths[word] ?? 64]));
      for (let thread = 0; thread < this.#threads; thread++) {
        const value = randomOperand(type, random, { edgePercent: 50 });
        view.setBigUint64((thread * wordsPerThread + word) * 8, value, true);
      }
    }
    return new Uint8Array(view.buffer);
  }

  /** Writes a statement. `depth` is the number of branches and loops around it. */
  #statement(depth: number): void {
    const choice = this.#random.below(100);
    if (choice < 8) this.#freshInput();
    else if (depth < 2 && choice < 14) this.#branch(depth);
    else if (depth < 2 && choice < 18) this.#loop(depth);
    else if (depth < 2 && choice < 20) this.#loopWithTwoEntries(depth);
    else if (depth < 2 && choice < 23) this.#switch(depth);
    else if (depth === 0 && choice < 28) this.#exchange();
    else if (depth === 0 && choice < 32) this.#contendedAtomics();
    else if (depth === 0 && choice < 34) this.#divergedHalves();
    else this.#operation({ isUniform: depth === 0 });
  }

  #statements(depth: number): void {
    for (let count = 1 + this.#random.below(4); count > 0; count--) this.#statement(depth);
  }

  #register(bits: RegisterBits): string {
    return this.#random.pick(registers.get(bits)!);
  }

  /** Loads an input again, which keeps values diverse. */
  #freshInput(): void {
    const bits = this.#random.pick([1, 16, 32, 32, 64, 64] as const);
    this.#lines.push(...loadRegister(this.#register(bits), bits, `input+${this.#random.below(wordsPerThread) * 8}`));
  }

  #operation({ isUniform }: { isUniform: boolean }): void {
    const names = this.#hasVideo && this.#random.percent(40)
      ? videoFamilyNames
      : isUniform
      ? familyNames
      : divergentFamilies;
    this.#write(this.#random.pick(families.get(this.#random.pick(names))!));
  }

  /** Splits each warp into halves that diverge. The threads of each half execute an operation together. */
  #divergedHalves(): void {
    const [upper, end] = [this.#label(), this.#label()];
    this.#lines.push("and.b32 other, thread, 16;", "setp.ne.u32 again, other, 0;", `@again bra ${upper};`);
    for (const mask of ["0x0000ffff", "0xffff0000"]) {
      const operation = this.#random.pick(families.get(this.#random.pick(["vote", "match", "redux"]))!);
      this.#write({ ...operation, text: operation.text.replace(allLanes, mask) });
      if (mask === "0x0000ffff") this.#lines.push(`bra ${end};`, `${upper}:`);
      else this.#lines.push(`${end}:`);
    }
  }

  #write(operation: Operation): void {
    const random = this.#random;
    const names: Record<string, string> = { THREADS: String(this.#threads) };
    const immediateAt = random.percent(20) ? random.below(operation.operands.length) : -1;
    const operands = operation.operands.map((type, index) => {
      const register = this.#register(type.bits);
      const chosen = index === immediateAt ? this.#immediate(operation, type) ?? register : register;
      names[operandNames[index]!] = chosen;
      return chosen;
    });
    const destination = this.#register(operation.result.bits);
    names.d = destination;
    const instructions = writeOperation(operation.text, names);
    const isPredicated = !operation.isUniform && instructions.length === 1 && random.percent(12);
    const guarded = isPredicated ? `@${random.pick(["", "!"])}${this.#register(1)} ` : "";
    const guard = losesGuard.test(operation.text) ? "" : guarded;
    const before = this.#logOperands(operation, operands);
    this.#lines.push(...before, ...instructions.map((instruction) => guard + instruction));
    // Without a guard: a guarded replacement would hide that a result was written although the guard was false.
    if (!this.#keepsNaNs || hasUnspecifiedNaN(operation)) {
      this.#lines.push(...canonicalizeNaN(operation.result.name, destination));
    }
    this.#step({ ...operation, name: guard + instructions.join(" ") }, destination);
  }

  #immediate({ text }: Operation, type: OperandType): string | undefined {
    // The driver's compiler must not know a divisor: it may give any result for a division by zero.
    if (
      type.bits === 1 || /^[us]8$|f16|x2$|tf32/.test(type.name) ||
      /^st\.|^div|^rem|^v|vote|match|red|bar|\{/.test(text)
    ) {
      return undefined;
    }
    const value = randomOperand(type, this.#random);
    // A NaN may get other bits if the driver's compiler computes with it.
    if (type.name === "f32") {
      return (value & 0x7fff_ffffn) > 0x7f80_0000n ? undefined : "0f" + value.toString(16).padStart(8, "0");
    }
    if (type.name === "f64") {
      const isNaN = (value & 0x7fff_ffff_ffff_ffffn) > 0x7ff0_0000_0000_0000n;
      return isNaN ? undefined : "0d" + value.toString(16).padStart(16, "0");
    }
    // The driver's compiler requires positions and lengths that it knows to fit in a byte, and uses only 16 bits of a
    // known amount of a 16-bit shift.
    const bits = type.name === "place" ? 8 : type.name === "amount" && /^sh[lr]\.[bus]16/.test(text) ? 16 : type.bits;
    const digits = "0x" + BigInt.asUintN(bits, value).toString(16);
    return type.bits === 64 ? digits + "U" : digits;
  }

  #logOperands({ operands }: Pick<Step, "operands">, written: readonly string[]): string[] {
    if (!this.#keepsLog) return [];
    return operands.flatMap(({ bits }, index) => {
      const place = `log+${16 + 8 * index}`;
      const operand = written[index]!;
      if (!/^[0-9]/.test(operand)) return storeRegister(operand, bits, place);
      return [
        `mov.${/^0[fd]/.test(operand) ? "f" : "b"}${bits} t${bits}_3, ${operand};`,
        `st.global.b${bits} [${place}], t${bits}_3;`,
      ];
    });
  }

  /** Gives the step that was just written its place in the output. */
  #step({ family, name, operands, result }: Step, register: string): void {
    const index = this.#steps.push({ family, name, operands, result }) - 1;
    this.#logEntries += this.#times;
    this.#lines.push(...storeRegister(register, result.bits, `place+${index * this.#threads * 8}`));
    if (!this.#keepsLog) return;
    this.#lines.push(
      `st.global.b32 [log], ${index + 1};`,
      ...storeRegister(register, result.bits, "log+8"),
      `add.u64 log, log, ${logEntryBytes};`,
    );
  }

  #label(): string {
    return `L${this.#labels++}`;
  }

  /** Writes an `if`, with or without an `else`. Some jump to the end early from the first branch. */
  #branch(depth: number): void {
    const [otherwise, end] = [this.#label(), this.#label()];
    this.#lines.push(`@${this.#random.pick(["", "!"])}${this.#register(1)} bra ${otherwise};`);
    this.#statements(depth + 1);
    if (this.#random.percent(25)) {
      this.#lines.push(`@${this.#register(1)} bra ${end};`);
      this.#statements(depth + 1);
    }
    if (this.#random.percent(60)) {
      this.#lines.push(`bra ${end};`, `${otherwise}:`);
      this.#statements(depth + 1);
    } else {
      this.#lines.push(`${otherwise}:`);
    }
    this.#lines.push(`${end}:`);
  }

  /**
   * Writes a counter for at most `most` iterations. Often the number of iterations depends on the values of each
   * thread.
   *
   * @param options.isUnknown Whether the driver's compiler must not know the number of iterations.
   */
  #startCounter(
    most: number,
    { isUnknown = false }: { isUnknown?: boolean } = {},
  ): { counter: string; more: string[] } {
    const counter = `counter${this.#counters++}`;
    const dependsOnValues = this.#random.percent(70);
    const value = dependsOnValues ? this.#register(32) : String(1 + this.#random.below(most - 1));
    if (isUnknown) {
      const place = this.#steps.length % wordsPerThread * 8;
      this.#lines.push(`ld.global.b32 ${counter}, [input+${place}];`, `and.b32 ${counter}, ${counter}, ${most - 1};`);
    } else if (dependsOnValues) {
      this.#lines.push(`and.b32 ${counter}, ${value}, ${most - 1};`);
    } else {
      this.#lines.push(`mov.u32 ${counter}, ${value};`);
    }
    return {
      counter,
      more: [`sub.u32 ${counter}, ${counter}, 1;`, `setp.ge.s32 again, ${counter}, 0;`],
    };
  }

  #loop(depth: number): void {
    const [again, end] = [this.#label(), this.#label()];
    const { more } = this.#startCounter(4);
    this.#times *= 4;
    this.#lines.push(`${again}:`);
    this.#statements(depth + 1);
    if (this.#random.percent(30)) this.#lines.push(`@${this.#register(1)} bra ${end};`);
    this.#lines.push(...more, `@again bra ${again};`, `${end}:`);
    this.#times /= 4;
  }

  /** Writes an irreducible loop, which no structured language has: some threads enter it in the middle. */
  #loopWithTwoEntries(depth: number): void {
    const [again, middle] = [this.#label(), this.#label()];
    const { more } = this.#startCounter(4, { isUnknown: true });
    this.#times *= 4;
    this.#lines.push(`@${this.#register(1)} bra ${middle};`, `${again}:`);
    this.#statements(depth + 1);
    this.#lines.push(`${middle}:`);
    this.#statements(depth + 1);
    this.#lines.push(...more, `@again bra ${again};`);
    this.#times /= 4;
  }

  #switch(depth: number): void {
    const count = this.#random.pick([2, 4]);
    const labels = Array.from({ length: count }, () => this.#label());
    const [table, end] = [this.#label(), this.#label()];
    this.#lines.push(
      `and.b32 selected, ${this.#register(32)}, ${count - 1};`,
      `${table}: .branchtargets ${labels.join(", ")};`,
      `brx.idx selected, ${table};`,
    );
    labels.forEach((label) => {
      this.#lines.push(`${label}:`);
      this.#statements(depth + 1);
      if (!this.#random.percent(25)) this.#lines.push(`bra ${end};`);
    });
    this.#lines.push(`${end}:`);
  }

  /** Each thread writes a value that another thread reads. */
  #exchange(): void {
    const random = this.#random;
    const bits = random.pick([16, 32, 64] as const);
    const source = this.#register(bits);
    const destination = this.#register(bits);
    const index = this.#register(32);
    const operands = [{ name: `b${bits}`, bits }, { name: "b32", bits: 32 as const }];
    const barrier = random.pick(["bar.sync 0;", "barrier.sync 1;", `bar.sync 7, ${this.#threads};`]);
    const before = this.#logOperands({ operands }, [source, index]);
    this.#lines.push(
      ...before,
      "mov.u32 mine, exchange;",
      `and.b32 other, ${index}, ${this.#threads - 1};`,
      "mad.lo.u32 other, other, 8, mine;",
      "mad.lo.u32 mine, thread, 8, mine;",
      `st.shared.b${bits} [mine], ${source};`,
      barrier,
      `ld.shared.b${bits} ${destination}, [other];`,
      barrier,
    );
    this.#step({ family: "exchange", name: `exchange of ${bits} bits`, operands, result: operands[0]! }, destination);
  }

  /** All threads change the same few words, with operations whose outcome does not depend on the order. */
  #contendedAtomics(): void {
    const random = this.#random;
    const bits = random.pick([32, 64] as const);
    const [operation, type] = random.pick(
      [
        ["add", `u${bits}`],
        ["and", `b${bits}`],
        ["or", `b${bits}`],
        ["xor", `b${bits}`],
        ["min", `${random.pick(["s", "u"])}${bits}`],
        ["max", `${random.pick(["s", "u"])}${bits}`],
        ["inc", "u32"],
        ["dec", "u32"],
      ] as const,
    );
    const width = operation === "inc" || operation === "dec" ? 32 : bits;
    // The limit of inc and dec must be the same for all threads, because the outcome would otherwise depend on the
    // order.
    const value = type === "u32" && width === 32 && operation !== "add"
      ? String(1 + random.below(20))
      : this.#register(width);
    const destination = this.#register(width);
    const form = random.pick([
      `red.shared.${operation}.${type} [other]`,
      `atom.shared.${operation}.${type} t${width}_0, [other]`,
    ]);
    this.#lines.push(
      "mov.u32 mine, common;",
      "and.b32 other, thread, 7;",
      "cvt.u64.u32 t64_0, other;",
      "mad.lo.u32 other, other, 8, mine;",
      "st.shared.b64 [other], t64_0;",
      "bar.sync 0;",
    );
    const isLogged = value.startsWith("r") || value.startsWith("l");
    const operands: readonly OperandType[] = isLogged ? [{ name: type, bits: width }] : [];
    this.#lines.push(
      ...this.#logOperands({ operands }, [value]),
      `${form}, ${value};`,
      "bar.sync 0;",
      `ld.shared.b${width} ${destination}, [other];`,
      "bar.sync 0;",
    );
    const result: OperandType = { name: type, bits: width };
    this.#step({ family: "contended atomics", name: `${form}, ${value}`, operands, result }, destination);
  }
}

/** Instructions that the driver's compiler splits, executing a part without the guard. */
const losesGuard = /^(set|testp)\./;

/** Whether the driver's compiler decides the bits of a NaN: it may exchange or merge operands, or move a sign. */
function hasUnspecifiedNaN({ text, result }: Operation): boolean {
  if (/^(abs|neg|min|max)\./.test(text)) return true;
  return result.name === "f64" && /^(add|sub|mul|fma|mad|div)\./.test(text);
}

/** Returns instructions that replace any NaN by one and the same. */
function canonicalizeNaN(type: string, register: string): string[] {
  const canonicalize = (scalar: string, name: string, nan: string) => [
    `setp.nan.${scalar} tp3, ${name}, ${name};`,
    `@tp3 mov.b${scalar === "f64" ? 64 : scalar === "f32" ? 32 : 16} ${name}, ${nan};`,
  ];
  switch (type) {
    case "f32":
    case "tf32":
      return canonicalize("f32", register, "0x7fffffff");
    case "f64":
      return canonicalize("f64", register, "0x7fffffffffffffff");
    case "f16":
    case "bf16":
      return canonicalize(type, register, "0x7fff");
    case "f16x2":
    case "bf16x2": {
      const half = type.slice(0, -2);
      const halves = ["t16_2", "t16_3"].flatMap((name) => canonicalize(half, name, "0x7fff"));
      return [`mov.b32 {t16_2, t16_3}, ${register};`, ...halves, `mov.b32 ${register}, {t16_2, t16_3};`];
    }
    default:
      return [];
  }
}
