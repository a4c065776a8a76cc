/**
 * Rows about a pool at its limit whose freed pieces are together as large as a requested buffer.
 *
 * @module
 */
import type { Driver } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { allocate, free } from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";
import { type allPolicies, type Approach, approaches, byteLength, choices, createPoolWith, prepare } from "./reuse.ts";

/** Pieces that fill a pool, which a buffer as large as all of them must then be served from. */
const pieceCount = 4;

/** The rows of this file. */
export const situations: readonly Situation[] = [
  ...Object.entries(choices).map(([which, policies]): Situation => ({
    name:
      `pieces freed while their stream is busy, all of a full pool, allocated as one on the same stream with ${which}`,
    run: ({ driver }) => combinePieces(driver, approaches["while its stream is busy"]!, { policies, isSame: true }),
  })),
  ...Object.entries(approaches).flatMap(([when, approach]) =>
    Object.entries(choices).map(([which, policies]): Situation => ({
      name: `pieces freed ${when}, all of a full pool, allocated as one on another stream with ${which}`,
      run: ({ driver }) => combinePieces(driver, approach, { policies, isSame: false }),
    }))
  ),
];

function combinePieces(
  driver: Driver,
  { before, after }: Approach,
  { policies, isSame }: { readonly policies: readonly (typeof allPolicies[number])[]; readonly isSame: boolean },
): Answer {
  const run = prepare(driver);
  const pool = createPoolWith(driver, { policies, maxSize: BigInt(byteLength) });
  const piece = byteLength / pieceCount;
  const pieces = Array.from({ length: pieceCount }, () => allocate(driver, pool, piece, run.stream));
  driver.deviceSynchronize(0);
  before(run);
  for (const address of pieces) free(driver, address, run.stream);
  after(run);
  const stream = isSame ? run.stream : run.other;
  let whole: bigint | undefined;
  const answers = attemptEach({
    allocate: () => void (whole = allocate(driver, pool, byteLength, stream)),
    waits: () => !driver.streamQuery(0, stream),
  });
  if (whole !== undefined) free(driver, whole, stream);
  // Rows that share a process would otherwise fill a software device's memory.
  driver.deviceSynchronize(0);
  driver.memPoolTrimTo(pool, 0n);
  return answers;
}
