/**
 * Starts the ranks of a communicator, and runs a function in each of their processes:
 *
 * - without a launcher, a process for each rank on this machine. They get the communicator's id through a socket.
 * - with `--one-process`, all ranks in this process.
 * - started by `torchrun` or `srun`, this process is one rank. The others find rank 0 at a TCP port.
 *
 * @module
 */
import { Communicator, type Cuda, type CudaDevice, open } from "../../mod.ts";
import { parseCount, UsageError } from "../command_line.ts";
import { GroupMember, ProcessGroup } from "../process_group.ts";
import { type LaunchedRank, launchedRank } from "./launched_rank.ts";
import { fetchId, handOutId } from "./rendezvous.ts";

/** The names of the options that {@linkcode ranksFrom} takes, and `child`, which a rank's process is started with. */
export const rankOptions = ["ranks", "timeout", "child"] as const;
/** The names of its options that have no value. */
export const rankFlags = ["one-process"] as const;
/** What `--help` says of them. */
export const aboutRanks: string = `
--ranks <n>    how many ranks: one for each GPU, or 4 on the software device, by default
--one-process  all ranks in one process, instead of one process for each
--timeout <s>  seconds in which all ranks must come, and a collective must be done: 60 by default
Started by torchrun or srun, each process is one rank: give it --allow-env and --allow-net in Deno, and set
RENDEZVOUS_TOKEN to the same secret in all.
`.trim();

/** The most ranks on the software device: each is a process of this machine, or a part of one. */
const mostSoftwareRanks = 8;
const softwareRanks = 4;

/** What the function of a program works with. */
export interface Team {
  readonly cuda: Cuda;
  /** The ranks of this process: one, or all. */
  readonly ranks: readonly Communicator[];
  /** How many ranks there are in all processes. */
  readonly size: number;
  readonly signal: AbortSignal;
}

/** A program that is started once for each rank. */
export interface RankProgram<Options, Result> {
  /** Its `import.meta.url`. */
  readonly url: string;
  /**
   * What each process does. Its options and its result are sent from one to another, as JSON.
   *
   * @returns The result of the process that has rank 0; the others' are not used.
   */
  work(team: Team, options: Options): Promise<Result>;
}

/** How many ranks, and where. */
export interface Ranks {
  /** One for each device by default. */
  readonly size: number | undefined;
  readonly inOneProcess: boolean;
  /** Milliseconds. */
  readonly timeout: number;
}

/** What a process of a group is sent. */
interface Invitation<Options> {
  /** As hexadecimal digits. */
  readonly id: string;
  readonly size: number;
  readonly timeout: number;
  readonly options: Options;
}

/** Reads `--ranks`, `--one-process` and `--timeout`. `--ranks` may be several numbers with commas. */
export function ranksFrom(
  named: { readonly ranks?: string; readonly "one-process"?: true; readonly timeout?: string },
): Ranks[] {
  const seconds = parseCount(named.timeout ?? "60", { what: "the timeout", least: 1 });
  const common = { inOneProcess: named["one-process"] ?? false, timeout: 1000 * seconds };
  if (named.ranks === undefined) return [{ ...common, size: undefined }];
  return named.ranks.split(",").map((text) => {
    return { ...common, size: parseCount(text, { what: "the number of ranks", least: 1 }) };
  });
}

/** Runs a program's function in all its ranks. Resolves with the result in the process that was started, or is rank 0. */
export async function runRanks<Options, Result>(
  program: RankProgram<Options, Result>,
  { options, ranks, signal }: { options: Options; ranks: Ranks; signal: AbortSignal },
): Promise<Result | undefined> {
  const launched = launchedRank();
  if (launched !== undefined) return await runLaunched(program, launched, { options, ranks, signal });
  const { timeout, inOneProcess } = ranks;
  using cuda = open();
  const size = sizeFor(cuda, ranks.size);
  const id = Communicator.createId(cuda);
  if (inOneProcess) {
    const places = cuda.driver === "software"
      ? Array.from({ length: size }, (_, rank) => cuda.device(rank % cuda.devices.length))
      : cuda.devices.slice(0, size);
    return await runTeam(program, options, { cuda, places: [...places.entries()], size, id, timeout, signal });
  }
  await using group = await ProcessGroup.start(new URL(program.url), { size, signal });
  await group.send({ id: id.toHex(), size, timeout, options } satisfies Invitation<Options>);
  const result = await group.answerOf<{ result: Result }>(0);
  await group.finished();
  return result.result;
}

/** Runs a program's function in the process of a rank that {@linkcode runRanks} has started. */
export async function runChild<Options, Result>(
  program: RankProgram<Options, Result>,
  { child, path, signal }: { child: string; path: string | undefined; signal: AbortSignal },
): Promise<void> {
  const rank = parseCount(child, { what: "the number of a child", least: 0 });
  if (path === undefined) {
    throw new UsageError("--child needs a socket: it is for the processes that this program starts");
  }
  await GroupMember.run({ number: rank, path }, async (member) => {
    const { id, size, timeout, options } = (await member.receive<Invitation<Options>>()).message;
    using cuda = open();
    const places = [[rank, deviceFor(cuda, rank)]] as const;
    const result = await runTeam(program, options, {
      cuda,
      places,
      size,
      id: Uint8Array.fromHex(id),
      timeout,
      signal,
    });
    if (rank === 0) await member.answer({ result });
  }, signal);
}

async function runLaunched<Options, Result>(
  program: RankProgram<Options, Result>,
  launched: LaunchedRank,
  { options, ranks, signal }: { options: Options; ranks: Ranks; signal: AbortSignal },
): Promise<Result | undefined> {
  const { launcher, rank, size, localRank } = launched;
  if (ranks.inOneProcess || (ranks.size ?? size) !== size) {
    throw new UsageError(
      `Cannot choose the ranks: ${launcher} has started this process as rank ${rank} of ${size}; leave out --ranks ` +
        "and --one-process",
    );
  }
  const { timeout } = ranks;
  const failed = new AbortController();
  const place = { ...launched, timeout, signal: AbortSignal.any([signal, failed.signal]) };
  using cuda = open();
  const places = [[rank, deviceFor(cuda, localRank)]] as const;
  const id = rank === 0 ? Communicator.createId(cuda) : await fetchId(place);
  const found = rank === 0 ? handOutId(id, place) : Promise.resolve();
  // Nobody comes any more to a rank 0 that cannot listen.
  found.catch((error) => failed.abort(error));
  const result = await runTeam(program, options, { cuda, places, size, id, timeout, signal: place.signal });
  await found;
  return rank === 0 ? result : undefined;
}

/** Creates communicators of ranks of this process, and runs the function. */
async function runTeam<Options, Result>(
  { work }: RankProgram<Options, Result>,
  options: Options,
  { cuda, places, size, id, timeout, signal }: Pick<Team, "cuda" | "size" | "signal"> & {
    readonly places: readonly (readonly [rank: number, device: CudaDevice])[];
    readonly id: Uint8Array;
    readonly timeout: number;
  },
): Promise<Result> {
  // Each waits for the others.
  const ranks = await Promise.all(
    places.map(([rank, device]) => Communicator.create(device, { id, rank, size, timeout, signal })),
  );
  try {
    const result = await work({ cuda, ranks, size, signal }, options);
    for (const rank of ranks) await rank[Symbol.asyncDispose]();
    return result;
  } catch (error) {
    // The other ranks need not wait for this one.
    for (const rank of ranks) await rank.abort();
    throw error;
  }
}

function sizeFor(cuda: Cuda, size: number | undefined): number {
  const isSoftware = cuda.driver === "software";
  const most = isSoftware ? mostSoftwareRanks : cuda.devices.length;
  if (size === undefined) return isSoftware ? softwareRanks : most;
  if (size <= most) return size;
  throw new UsageError(
    `Cannot start ${size} ranks: ${
      isSoftware ? `on the software device, ${most} is the most` : `there are ${most} GPUs`
    }`,
  );
}

/** The device of a rank, by its number on this machine. A launcher may show each process only the one that it is for. */
function deviceFor(cuda: Cuda, localRank: number): CudaDevice {
  const count = cuda.devices.length;
  if (cuda.driver === "software" || count === 1) return cuda.device(localRank % count);
  if (localRank < count) return cuda.device(localRank);
  throw new Error(`Cannot take part as rank ${localRank} of this machine: it has ${count} GPUs`);
}
