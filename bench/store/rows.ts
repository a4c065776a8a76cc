/**
 * Rows of two contenders, which are measured in turn.
 *
 * @module
 */
import { median } from "../measurement.ts";

/** Measures once. Resolves to a number of nanoseconds. */
export type Measure = () => Promise<number>;

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

/** A row's cells, and why something could not be measured. */
export interface MeasuredRow {
  readonly cells: readonly string[];
  readonly failures: readonly string[];
}

/**
 * Measures both contenders in turn, so that other load on the machine affects both equally, each round beginning with
 * another one. Resolves to the cells: name, goal, both contenders' medians with minimum and maximum, and the median of
 * the ratios within a round.
 */
export async function measureRow({ name, goal, unit, measure, reference, rounds }: Row): Promise<MeasuredRow> {
  const contenders = [measure, reference].map((run) => ({ run, values: [] as number[] }));
  const failures: string[] = [];
  for (let round = 0; round < rounds; round++) {
    for (const contender of round % 2 === 0 ? contenders : contenders.toReversed()) {
      try {
        if (contender.run !== undefined) contender.values.push(valueOf(await contender.run(), unit));
      } catch (error) {
        contender.run = undefined;
        failures.push(`${name}: ${(error as Error).message}`);
      }
    }
  }
  const [own, other] = contenders.map(({ values }) => values) as [number[], number[]];
  const ratios = own.slice(0, other.length).map((value, round) => value / other[round]!);
  const ratio = ratios.length === 0 ? undefined : median(ratios);
  const verdict = goal === undefined || ratio === undefined ? "" : ratio <= goal ? ", met" : ", MISSED";
  const cells = [
    name,
    goal === undefined ? "" : `<= ${goal}${verdict}`,
    ...[own, other].map((values) => formatValues(values, unit)),
    ratio?.toFixed(2) ?? "",
  ];
  return { cells, failures };
}

function valueOf(nanoseconds: number, unit: Row["unit"]): number {
  return unit === "ms" ? nanoseconds / 1e6 : 1e9 / nanoseconds;
}

function formatValues(values: readonly number[], unit: Row["unit"]): string {
  if (values.length === 0) return "";
  const [middle, least, most] = [median(values), Math.min(...values), Math.max(...values)].map((value) =>
    value < 100 ? value.toPrecision(3) : value.toFixed(0)
  );
  return values.length === 1 ? `${middle} ${unit}` : `${middle} ${unit} (${least} to ${most})`;
}
