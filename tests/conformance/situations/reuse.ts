/**
 * Rows about which policies allow a stream to reuse memory that another stream has freed. The freeing stream is still
 * busy, unless a row's name says otherwise.
 *
 * @module
 */
import { type Driver, eventFlags } from "../../../src/driver.ts";
import { attemptEach } from "../attempts.ts";
import { type LongWork, prepareLongWork } from "../long_work.ts";
import { allocate, createPool, createStream, free, infinite, mebibyte, setAttribute } from "../pools.ts";
import type { Answer, Situation } from "../situation.ts";

/** The size of the memory that is freed, in bytes. */
export const byteLength: number = 64 * mebibyte;
/** Launches of long work: far longer than the calls during which the stream must be busy. */
const busyLaunches = 48;
/** The attributes that are policies. */
export const allPolicies = [
  "reuseFollowEventDependencies",
  "reuseAllowOpportunistic",
  "reuseAllowInternalDependencies",
] as const;

/**
 * What a row does before the memory is freed on one stream, and between that and the allocation on the other stream.
 */
export interface Approach {
  readonly before: (run: Run) => void;
  readonly after: (run: Run) => void;
}

/** What a row has prepared. */
export interface Run {
  readonly driver: Driver;
  readonly work: LongWork;
  readonly stream: bigint;
  readonly other: bigint;
}

const keepBusy = ({ work, stream }: Run) => work.keepBusy(stream, busyLaunches);
const nothing = () => {};

/** Approaches by name. */
export const approaches: Readonly<Record<string, Approach>> = {
  "while its stream is busy": { before: keepBusy, after: nothing },
  "before an event that the other stream waits for": {
    before: keepBusy,
    after({ driver, stream, other }) {
      const event = driver.eventCreateWithFlags(0, eventFlags.disableTiming);
      driver.eventRecord(0, event, stream);
      driver.streamWaitEvent(0, other, event);
    },
  },
  "whose stream was queried until it was done": {
    before: ({ work, stream }) => work.keepBusy(stream, 1),
    after({ driver, stream }) {
      while (!driver.streamQuery(0, stream));
    },
  },
  "whose stream was synchronized": {
    before: ({ work, stream }) => work.keepBusy(stream, 1),
    after: ({ driver, stream }) => driver.streamSynchronize(0, stream),
  },
};

/** The policies that rows allow, by name. */
export const choices: Readonly<Record<string, readonly (typeof allPolicies[number])[]>> = {
  "every policy": allPolicies,
  "no policy": [],
  ...Object.fromEntries(allPolicies.map((policy) => [`${policy} alone`, [policy]])),
};

/** The rows of this file. */
export const situations: readonly Situation[] = [
  ...Object.entries(approaches).flatMap(([when, approach]) =>
    Object.entries(choices).map(([which, policies]): Situation => ({
      name: `memory freed ${when} allocated on another stream with ${which}`,
      run: ({ driver }) => ({
        withRoom: isReused(driver, approach, { policies, maxSize: 0n }),
        withoutRoom: isReused(driver, approach, { policies, maxSize: BigInt(byteLength) }),
      }),
    }))
  ),
  {
    name: "memory freed while its stream is busy allocated on the same stream with no policy",
    run({ driver }) {
      const run = prepare(driver);
      const pool = createPoolWith(driver, { policies: [], maxSize: 0n });
      const address = allocate(driver, pool, byteLength, run.stream);
      driver.deviceSynchronize(0);
      keepBusy(run);
      free(driver, address, run.stream);
      return { isReused: allocate(driver, pool, byteLength, run.stream) === address };
    },
  },
];

function isReused(
  driver: Driver,
  { before, after }: Approach,
  options: { readonly policies: readonly (typeof allPolicies[number])[]; readonly maxSize: bigint },
): Answer {
  const run = prepare(driver);
  const pool = createPoolWith(driver, options);
  const address = allocate(driver, pool, byteLength, run.stream);
  driver.deviceSynchronize(0);
  before(run);
  free(driver, address, run.stream);
  after(run);
  const answers = attemptEach({ isReused: () => allocate(driver, pool, byteLength, run.other) === address });
  driver.deviceSynchronize(0);
  return answers;
}

/** Prepares long work and two streams. */
export function prepare(driver: Driver): Run {
  return { driver, work: prepareLongWork(driver, 0), stream: createStream(driver), other: createStream(driver) };
}

/** Creates a pool with exactly the given policies. */
export function createPoolWith(
  driver: Driver,
  { policies, maxSize }: { readonly policies: readonly (typeof allPolicies[number])[]; readonly maxSize: bigint },
): bigint {
  const pool = createPool(driver, { maxSize });
  setAttribute(driver, pool, "releaseThreshold", infinite);
  for (const policy of allPolicies) setAttribute(driver, pool, policy, policies.includes(policy) ? 1n : 0n);
  return pool;
}
