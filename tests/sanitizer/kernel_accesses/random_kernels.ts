/**
 * Random kernels whose addresses are computed from the thread's place, with guards, loops, selections and branches that
 * depend on memory.
 *
 * @module
 */
import type { Random } from "../../differential/random.ts";

/** The bytes of each buffer. The kernel gets the address of the middle. */
export const bufferBytes: number = 2 ** 18;
const bound = bufferBytes / 2 / 16 - 1;

/** A launch of a random kernel. */
export interface RandomLaunch {
  readonly ptx: string;
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  /** The number that it gets after its two addresses. */
  readonly n: number;
}

/** A register with a number, and what the number may be. */
interface Register {
  readonly name: string;
  readonly low: number;
  readonly high: number;
}

/** Makes a kernel. */
export function randomLaunch(random: Random): RandomLaunch {
  return new Writer(random).launch();
}

class Writer {
  readonly #random: Random;
  readonly #lines: string[] = [];
  readonly #grid: [number, number, number];
  readonly #block: [number, number, number];
  readonly #n: number;
  #count = 0;
  #labels = 0;
  #statements = 0;
  #registers: Register[] = [];

  constructor(random: Random) {
    this.#random = random;
    const among = (values: readonly number[]) => values[random.below(values.length)]!;
    this.#grid = [among([1, 2, 3, 5]), among([1, 1, 2]), among([1, 1, 1, 2])];
    this.#block = [among([1, 7, 32, 48]), among([1, 1, 4]), among([1, 1, 2])];
    this.#n = random.below(400);
  }

  launch(): RandomLaunch {
    const special = (name: string, axis: number, count: number) =>
      this.#define({ low: 0, high: count - 1 }, (r) => `mov.u32 ${r}, %${name}.${"xyz"[axis]};`);
    for (let axis = 0; axis < 3; axis++) {
      special("tid", axis, this.#block[axis]!);
      special("ctaid", axis, this.#grid[axis]!);
    }
    this.#define({ low: this.#n, high: this.#n }, (r) => `ld.param.u32 ${r}, [n];`);
    const [tid, ctaid] = this.#registers as [Register, Register];
    const size = this.#block[0];
    this.#define(
      { low: 0, high: this.#grid[0] * size - 1 },
      (r) => `mad.lo.s32 ${r}, ${ctaid.name}, ${size}, ${tid.name};`,
    );
    this.#statementsOf(3 + this.#random.below(6), 0);
    const ptx = `.version 7.0
.target sm_70
.address_size 64
.visible .entry kernel(.param .u64 a, .param .u64 b, .param .u32 n) {
  .reg .b32 %r<${this.#count}>;
  .reg .b32 %value;
  .reg .pred %p<${this.#count}>, %q;
  .reg .b64 %a<3>, %address;
  ld.param.u64 %a1, [a];
  ld.param.u64 %a2, [b];
  cvta.to.global.u64 %a1, %a1;
${this.#lines.map((line) => `  ${line}`).join("\n")}
  ret;
}
`;
    return { ptx, grid: this.#grid, block: this.#block, n: this.#n };
  }

  #below(count: number): number {
    return this.#random.below(count);
  }

  #any(): Register {
    return this.#registers[this.#below(this.#registers.length)]!;
  }

  #define({ low, high }: { low: number; high: number }, line: (register: string) => string): Register | undefined {
    if (low < -(2 ** 20) || high > 2 ** 20) return undefined;
    const register = { name: `%r${this.#count++}`, low, high };
    this.#lines.push(line(register.name));
    this.#registers.push(register);
    return register;
  }

  #statementsOf(count: number, depth: number): void {
    const outer = [...this.#registers];
    for (let index = 0; index < count && this.#statements < 40; index++) {
      this.#statements++;
      this.#statement(depth);
    }
    // What is defined on one way only is not used behind.
    this.#registers = outer.concat(depth === 0 ? this.#registers.slice(outer.length) : []);
  }

  #statement(depth: number): void {
    const kind = this.#below(12);
    if (kind < 5) return this.#compute();
    if (kind < 8 || depth >= 3) return this.#access();
    if (kind === 8) return this.#loop(depth);
    if (kind === 9 && depth === 0 && this.#below(3) === 0) {
      this.#lines.push(`@${this.#condition()} ret;`);
      return;
    }
    this.#branch(depth);
  }

  #compute(): void {
    const a = this.#any(), b = this.#any();
    const factor = 1 + this.#below(9), power = 1 + this.#below(5), size = 2 ** power;
    const isNatural = a.low >= 0;
    const products = [a.low * factor, a.high * factor];
    switch (this.#below(14)) {
      case 0:
        return void this.#define(
          { low: a.low + b.low, high: a.high + b.high },
          (r) => `add.s32 ${r}, ${a.name}, ${b.name};`,
        );
      case 1:
        return void this.#define(
          { low: a.low - b.high, high: a.high - b.low },
          (r) => `sub.s32 ${r}, ${a.name}, ${b.name};`,
        );
      case 2:
        return void this.#define(
          { low: products[0]!, high: products[1]! },
          (r) => `mul.lo.s32 ${r}, ${a.name}, ${factor};`,
        );
      case 3:
        return void this.#define(
          { low: a.low * size, high: a.high * size },
          (r) => `shl.b32 ${r}, ${a.name}, ${power};`,
        );
      case 4:
        return void this.#define(
          { low: Math.floor(a.low / size), high: Math.floor(a.high / size) },
          (r) => `shr.s32 ${r}, ${a.name}, ${power};`,
        );
      case 5:
        return void this.#define({ low: 0, high: size - 1 }, (r) => `and.b32 ${r}, ${a.name}, ${size - 1};`);
      case 6:
        if (isNatural) {
          this.#define({ low: 0, high: Math.floor(a.high / factor) }, (r) => `div.u32 ${r}, ${a.name}, ${factor};`);
        }
        return;
      case 7:
        if (isNatural) this.#define({ low: 0, high: factor - 1 }, (r) => `rem.u32 ${r}, ${a.name}, ${factor};`);
        return;
      case 8:
        return void this.#define(
          { low: Math.min(a.low, b.low), high: Math.min(a.high, b.high) },
          (r) => `min.s32 ${r}, ${a.name}, ${b.name};`,
        );
      case 9:
        return void this.#define(
          { low: Math.max(a.low, b.low), high: Math.max(a.high, b.high) },
          (r) => `max.s32 ${r}, ${a.name}, ${b.name};`,
        );
      case 10: {
        const condition = this.#condition();
        return void this.#define(
          { low: Math.min(a.low, b.low), high: Math.max(a.high, b.high) },
          (r) => `selp.b32 ${r}, ${a.name}, ${b.name}, ${condition.replace("!", "")};`,
        );
      }
      case 11:
        return void this.#define(
          { low: a.low - factor, high: a.high - factor },
          (r) => `add.u32 ${r}, ${a.name}, ${-factor};`,
        );
      case 12:
        return void this.#define({ low: -a.high, high: -a.low }, (r) => `neg.s32 ${r}, ${a.name};`);
      default:
        return void this.#define({ low: a.low * size, high: a.high * size + size - 1 }, (r) => {
          this.#lines.push(`shl.b32 ${r}, ${a.name}, ${power};`);
          return `or.b32 ${r}, ${r}, ${this.#below(size)};`;
        });
    }
  }

  /** Writes a test, and returns the predicate. */
  #condition(): string {
    const a = this.#any(), b = this.#any();
    const relation = ["lt", "le", "gt", "ge", "eq", "ne"][this.#below(6)];
    const isUnsigned = a.low >= 0 && b.low >= 0 && this.#below(2) === 0;
    const second = this.#below(2) === 0 ? b.name : `${a.low + this.#below(a.high - a.low + 1)}`;
    const predicate = `%p${this.#count++}`;
    this.#lines.push(`setp.${relation}.${isUnsigned ? "u32" : "s32"} ${predicate}, ${a.name}, ${second};`);
    if (this.#below(4) === 0) {
      const c = this.#any();
      this.#lines.push(`setp.lt.s32 %q, ${c.name}, ${c.high};`);
      this.#lines.push(`${this.#below(2) === 0 ? "and" : "or"}.pred ${predicate}, ${predicate}, %q;`);
    }
    return this.#below(2) === 0 ? `!${predicate}` : predicate;
  }

  #access(): void {
    const place = this.#any();
    if (place.low < -bound || place.high > bound) return;
    const size = [1, 2, 4, 8, 16][this.#below(5)]!;
    const offset = size * this.#below(2);
    this.#lines.push(`mul.wide.s32 %address, ${place.name}, ${size};`);
    const buffer = 1 + this.#below(2), space = this.#below(2) === 0 ? ".global" : "";
    this.#lines.push(`add.s64 %address, %address, %a${buffer};`);
    const guard = this.#below(5) === 0 ? `@${this.#condition()} ` : "";
    const address = `[%address+${offset}]`;
    const [zero, vector] = size === 16 ? ["{0, 0}", ".v2.b64"] : ["0", `.b${8 * size}`];
    switch (this.#below(size === 4 ? 4 : 2)) {
      case 0:
        this.#lines.push(`${guard}st${space}${vector} ${address}, ${zero};`);
        return;
      case 1:
        if (size === 16) this.#lines.push(`{ .reg .b64 %x<2>; ${guard}ld${space}${vector} {%x0, %x1}, ${address}; }`);
        else this.#lines.push(`{ .reg .b${Math.max(16, 8 * size)} %x; ${guard}ld${space}${vector} %x, ${address}; }`);
        return;
      case 2:
        this.#lines.push(`${guard}red${space}.add.u32 ${address}, 1;`);
        return;
      default:
        this.#lines.push(`${guard}st.volatile${space}.b32 ${address}, 1;`);
    }
  }

  #branch(depth: number): void {
    const label = this.#labels++;
    let condition: string;
    if (this.#below(4) === 0) {
      // Depends on memory, which is all zeros and ones.
      this.#lines.push(`ld.global.u32 %value, [%a1];`);
      const predicate = `%p${this.#count++}`;
      this.#lines.push(`setp.eq.u32 ${predicate}, %value, ${this.#below(2)};`);
      condition = predicate;
    } else condition = this.#condition();
    const hasElse = this.#below(2) === 0;
    this.#lines.push(`@${condition} bra $else${label};`);
    this.#statementsOf(1 + this.#below(3), depth + 1);
    if (hasElse) this.#lines.push(`bra $end${label};`);
    this.#lines.push(`$else${label}:`);
    if (hasElse) {
      this.#statementsOf(1 + this.#below(3), depth + 1);
      this.#lines.push(`$end${label}:`);
    }
  }

  /** A loop that counts up from a register to another one, or down to 0, with a test in front of it or behind it. */
  #loop(depth: number): void {
    const label = this.#labels++;
    const start = this.#any(), end = this.#any();
    const step = [1, 2, 3, 16, 48][this.#below(5)]!;
    if ((end.high - start.low) / step > 40) return;
    const high = Math.max(end.high + step, start.high);
    if (start.low < -(2 ** 20) || high > 2 ** 20) return;
    const counter: Register = { name: `%r${this.#count++}`, low: start.low, high };
    const predicate = `%p${this.#count++}`;
    this.#lines.push(`mov.u32 ${counter.name}, ${start.name};`);
    const isTestedFirst = this.#below(2) === 0;
    const test = `setp.ge.s32 ${predicate}, ${counter.name}, ${end.name};`;
    this.#lines.push(`$loop${label}:`);
    if (isTestedFirst) this.#lines.push(test, `@${predicate} bra $done${label};`);
    const outer = [...this.#registers];
    this.#registers.push(counter);
    this.#statementsOf(1 + this.#below(3), depth + 1);
    this.#registers = outer;
    this.#lines.push(`add.s32 ${counter.name}, ${counter.name}, ${step};`);
    if (isTestedFirst) this.#lines.push(`bra $loop${label};`);
    else this.#lines.push(test, `@!${predicate} bra $loop${label};`);
    this.#lines.push(`$done${label}:`);
    if (this.#below(2) === 0) this.#registers.push(counter);
  }
}
