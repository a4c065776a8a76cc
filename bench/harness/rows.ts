/**
 * Rows of two contenders, which are measured in turn.
 *
 * @module
 */
import type { Answer } from "../sharing/contract.ts";
import type { Contender } from "./contender.ts";
import { fail } from "./failures.ts";
import { formatSpread, median } from "./measurement.ts";

/** Measures once. Resolves to a number of nanoseconds. */
export type Measure = () => Promise<number>;

/** Asks a program for samples, and resolves to their median. */
export function asking(contender: Contender, request: Readonly<Record<string, unknown>>): Measure {
  return async () => {
    const answer = await contender.ask<Answer>(JSON.stringify({ repetitions: 1, ...request }));
    if ("error" in answer) throw new Error(`${contender.name}: ${answer.error}`);
    return answer.nanoseconds.length === 0 ? NaN : median(answer.nanoseconds);
  };
}

/** A row of a table. */
export interface Row {
  readonly name: string;
  /** The greatest ratio that is wanted. */
  readonly goal?: number;
  readonly unit: "ms" | "per second";
  readonly measure: Measure;
  /** Undefined if there is no other contender. */
  readonly reference: Measure | undefined;
  readonly rounds: number;
}

/**
 * Measures both contenders in turn, so that other load on the machine affects both equally, each round beginning with
 * another one. Resolves to the cells: name, goal, both contenders' medians with minimum and maximum, and the median of
 * the ratios within a round. Notes what could not be measured.
 */
export async function measureRow({ name, goal, unit, measure, reference, rounds }: Row): Promise<string[]> {
  const contenders = [measure, reference].map((run) => ({ run, values: [] as number[] }));
  for (let round = 0; round < rounds; round++) {
    for (const contender of round % 2 === 0 ? contenders : contenders.toReversed()) {
      try {
        if (contender.run !== undefined) contender.values.push(valueOf(await contender.run(), unit));
      } catch (error) {
        contender.run = undefined;
        fail(name, error);
      }
    }
  }
  const [own, other] = contenders.map(({ values }) => values) as [number[], number[]];
  const ratios = own.slice(0, other.length).map((value, round) => value / other[round]!);
  const ratio = ratios.length === 0 ? undefined : median(ratios);
  const verdict = goal === undefined || ratio === undefined ? "" : ratio <= goal ? ", met" : ", MISSED";
  return [
    name,
    goal === undefined ? "" : `<= ${goal}${verdict}`,
    ...[own, other].map((values) => formatValues(values, unit)),
    ratio?.toFixed(2) ?? "",
  ];
}

function valueOf(nanoseconds: number, unit: Row["unit"]): number {
  return unit === "ms" ? nanoseconds / 1e6 : 1e9 / nanoseconds;
}

function formatValues(values: readonly number[], unit: Row["unit"]): string {
  if (values.length === 0) return "";
  const format = (value: number) => value < 100 ? value.toPrecision(3) : value.toFixed(0);
  if (values.length === 1) return `${format(values[0]!)} ${unit}`;
  return formatSpread(values, format).replace(" ", ` ${unit} `);
}
