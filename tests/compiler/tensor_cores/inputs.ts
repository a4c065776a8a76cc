/**
 * Inputs for products of matrices: seeded random elements of several classes.
 *
 * @module
 */
import { decode, type FormatName, formats, type IntegerName } from "./reference.ts";

/** A generator of 32-bit random numbers. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** The generator for a class of inputs of a form. */
  static of(text: string, kind: string): Random {
    let seed = 0x811c_9dc5;
    for (const character of `${text} ${kind}`) seed = Math.imul(seed ^ character.charCodeAt(0), 0x0100_0193);
    return new Random(seed);
  }

  /** A number from 0 to 2^32 - 1. */
  next(): number {
    this.#state = (this.#state + 0x9e37_79b9) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0_aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a_2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  }

  below(limit: number): number {
    return this.next() % limit;
  }

  pick<Choice>(choices: readonly Choice[]): Choice {
    return choices[this.below(choices.length)]!;
  }
}

/** The classes of inputs. */
export const classes = ["small", "bits", "cancel", "spread", "zeros", "extremes", "special", "limits"] as const;
export type InputClass = typeof classes[number] | "alternating" | "mixed";
/** The classes of inputs that chunks of a million elements have. */
export const chunkClasses: readonly InputClass[] = [...classes, "alternating", "mixed"];

/** Returns an element of a class, in the low bits. */
export function element(random: Random, kind: InputClass, name: FormatName): number {
  if (kind === "mixed") return element(random, random.pick(classes), name);
  const { exponent, mantissa, dropped = 0 } = formats[name];
  const bias = 2 ** (exponent - 1) - 1;
  const all = 2 ** exponent - 1;
  const low = random.below(2 ** dropped);
  const sign = random.below(2);
  const compose = (field: number, fraction: number) =>
    ((sign * 2 ** exponent + Math.max(0, Math.min(all, field))) * 2 ** mantissa + fraction) * 2 ** dropped + low;
  const fraction = random.below(2 ** mantissa);
  switch (kind) {
    case "small":
      return compose(bias - 2 + random.below(4), fraction);
    case "bits": {
      // Random bits, but neither infinities nor NaNs.
      const bits = compose(random.below(all), fraction);
      return decode(bits, name).kind === "number" ? bits : 0;
    }
    case "cancel":
      // Few different magnitudes, so that sums of products often cancel.
      return compose(bias + random.below(2), [0, 1, 2 ** mantissa - 1, fraction][random.below(4)]!);
    case "alternating":
      // Powers of two whose products cancel if their signs differ, and what is small beside them.
      return random.below(4) !== 0
        ? compose(bias + Math.min(bias - 1, 6), random.below(4) === 0 ? fraction : 0)
        : compose(bias - 18 + random.below(24), fraction);
    case "spread":
      return compose(bias - 12 + random.below(24), fraction);
    case "zeros":
      return random.below(3) === 0 ? compose(bias + random.below(3), fraction) : compose(0, 0);
    case "extremes":
      return [
        () => compose(0, fraction),
        () => compose(0, 1),
        () => compose(1, fraction),
        () => compose(all - 1, 2 ** mantissa - 2),
        () => compose(all - 1, fraction & ~1),
        () => compose(bias, fraction),
      ][random.below(6)]!();
    case "limits":
      // Sums near the largest f32: products of 2^100 to 2^106, which f16 does not have.
      if (name === "f32") return compose(all - 1, 2 ** mantissa - 1 - random.below(4));
      return random.below(4) === 0
        ? compose(exponent < 8 ? all - 1 - random.below(2) : bias + 50 + random.below(4), random.below(2) * fraction)
        : compose(0, 0);
    case "special":
      return random.below(24) !== 0
        ? compose(bias - 3 + random.below(6), fraction)
        : [() => compose(all, 0), () =>
          compose(all, fraction), () =>
          compose(all, 2 ** mantissa - 1), () =>
          compose(0, 0)][
            random.below(4)
          ]!();
  }
}

/** Returns an integer of a class, as bits. Limits of the format and of 32 bits are frequent among the extremes. */
export function integerElement(random: Random, kind: InputClass, name: IntegerName): number {
  if (kind === "mixed") return integerElement(random, random.pick(classes), name);
  const bits = Number(name.slice(1));
  const any = bits === 32 ? random.next() : random.below(2 ** bits);
  switch (kind) {
    case "small":
      return bits === 32 ? (random.below(2000) - 1000) >>> 0 : any % Math.min(8, 2 ** bits);
    case "zeros":
      return random.below(3) === 0 ? any : 0;
    case "extremes":
    case "alternating":
    case "special":
    case "limits": {
      const most = 2 ** (bits - 1);
      const near = [most - 1, most, most * 2 - 1, 0, any][random.below(5)]!;
      return bits === 32 && random.below(2) === 0
        ? (near + random.below(1000) - 500) >>> 0
        : Math.min(near, 2 ** bits - 1);
    }
    default:
      return any;
  }
}

/** Returns a 64-bit number of a class, as bits. */
export function doubleElement(random: Random, kind: InputClass): bigint {
  if (kind === "mixed") return doubleElement(random, random.pick(classes));
  const fraction = BigInt(random.next() & 0xf_ffff) << 32n | BigInt(random.next());
  const sign = BigInt(random.below(2)) << 63n;
  const compose = (field: number, rest: bigint) => sign | BigInt(field) << 52n | rest;
  switch (kind) {
    case "small":
      return compose(1021 + random.below(4), fraction);
    case "bits":
      return compose(random.below(2047), fraction);
    case "cancel":
      return compose(1023 + random.below(2), [0n, 1n, (1n << 52n) - 1n, fraction][random.below(4)]!);
    case "alternating":
      return random.below(4) !== 0
        ? compose(1023 + 6, random.below(4) === 0 ? fraction : 0n)
        : compose(1023 - 60 + random.below(60), fraction);
    case "spread":
      return compose(1023 - 30 + random.below(60), fraction);
    case "zeros":
      return random.below(3) === 0 ? compose(1023, fraction) : sign;
    case "extremes":
      return [
        () => compose(0, fraction),
        () => compose(0, 1n),
        () => compose(1, fraction),
        () => compose(2046, (1n << 52n) - 1n),
        () => compose(1023, fraction),
        () => compose(500 + random.below(1000), fraction),
      ][random.below(6)]!();
    case "limits":
      return compose(2046 - random.below(60), fraction);
    case "special":
      return random.below(8) !== 0
        ? compose(1020 + random.below(6), fraction)
        : [() => compose(2047, 0n), () =>
          compose(2047, fraction), () =>
          compose(2047, 1n), () =>
          sign][random.below(4)]!();
  }
}
