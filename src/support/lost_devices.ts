/**
 * Adds the launches that may have caused the loss of a device to the driver's error. A GPU reports the kind of a
 * kernel's fault, but not the kernel. Therefore the first error lists the launches that may have caused it, and later
 * errors refer to the first.
 *
 * @module
 */

/** The launches on a stream that are not known to be complete. */
export interface LaunchesUnderWay {
  /** The stream in messages: "the default stream of device 0". */
  readonly stream: string;
  /** The number of launches that are described. */
  readonly count: number;
  /** The launches, from the oldest, with equal ones combined: "saxpy x 12 (4 blocks of 256 threads)". */
  readonly descriptions: readonly string[];
  /** Whether there may be earlier pending launches that were not recorded. */
  readonly hasEarlier: boolean;
}

/** Records the launches of a `Cuda` object. */
export interface LaunchObserver {
  /** Whether the descriptions of launches include their call sites. */
  readonly hasCallSites: boolean;
  areDevicesLost(): boolean;
  launchesUnderWay(): readonly LaunchesUnderWay[];
}

/** A loss of a device's context, as the first error reported it. */
interface Loss {
  /** The failed action, phrased to follow "Cannot". */
  readonly what: string;
  /** Whether the error may have reached the program. */
  isSeen: boolean;
}

/** The part of error messages that states the consequence of a lost context on a GPU. */
export const contextIsLost = "the device's context is lost: this process can no longer use CUDA and must be restarted";
/** The equivalent for software devices, which belong to one `Cuda` object and not to the process. */
export const softwareContextIsLost =
  "the device's context is lost: dispose of this Cuda object, and call open() for another one";

/** The maximum number of streams, and of descriptions for each stream, that a message lists. */
const maxListed = 8;

/**
 * The observers of all `Cuda` objects. Weak references, because a program may drop a `Cuda` object without disposing
 * it.
 */
const observers = new Set<WeakRef<LaunchObserver>>();
/** For each observer, the first loss whose error listed the observer's launches. */
const firstLosses = new WeakMap<LaunchObserver, Loss>();
/**
 * Maps each of the driver's errors, and each error that was created from a driver's error, to the loss that it reports.
 */
const lossesByError = new WeakMap<object, Loss>();

/**
 * Registers an observer. The next error that reports a lost device lists the observer's launches. Returns a function
 * that removes the observer.
 */
export function observeLosses(observer: LaunchObserver): () => void {
  for (const other of observers) if (other.deref() === undefined) observers.delete(other);
  const reference = new WeakRef(observer);
  observers.add(reference);
  return () => void observers.delete(reference);
}

/**
 * Returns the text to append to the driver's message for the loss of a device that a kernel has caused.
 *
 * @param what The failed action, phrased to follow "Cannot".
 * @param error The driver's error. Calls with the same error return the same text.
 */
export function explainLoss(what: string, error: object): string {
  const lost = [...observers].map((each) => each.deref()).filter((each) => each?.areDevicesLost()) as LaunchObserver[];
  const isUnseen = (observer: LaunchObserver) => {
    const first = firstLosses.get(observer);
    return first === undefined || !first.isSeen || first === lossesByError.get(error);
  };
  const unseen = lost.filter(isUnseen);
  if (lost.length > 0 && unseen.length === 0) {
    return `the device's context is lost, first seen in "Cannot ${firstLosses.get(lost[0]!)!.what}"`;
  }
  const loss = lossesByError.get(error) ?? { what, isSeen: true };
  loss.isSeen = true;
  lossesByError.set(error, loss);
  for (const observer of unseen) firstLosses.set(observer, loss);
  const lines = [
    contextIsLost,
    ...(lost.length === 0 ? [] : listLaunches(unseen.flatMap((observer) => observer.launchesUnderWay()))),
    "To find the line, run the script with POOLPASS_DRIVER=software, or under compute-sanitizer" +
    (unseen.some(({ hasCallSites }) => !hasCallSites) ? "; POOLPASS_DEBUG=1 adds where each kernel was launched" : ""),
  ];
  return lines.join("\n");
}

/** Records that an error was created from a driver's error, for `noteUnseen`. */
export function noteMadeFrom(error: object, driverError: object): void {
  const loss = lossesByError.get(driverError);
  if (loss !== undefined) lossesByError.set(error, loss);
}

/**
 * Records that an error was not reported to the program. If the error lists launches, the next error will list them
 * again.
 */
export function noteUnseen(error: unknown): void {
  const loss = lossesByError.get(error as object);
  if (loss !== undefined) loss.isSeen = false;
}

/**
 * Resolves when all promises are settled. Marks the errors of rejected promises as unseen, because they do not reach
 * the program.
 */
export async function allSettledUnseen(promises: readonly Promise<unknown>[]): Promise<void> {
  for (const end of await Promise.allSettled(promises)) if (end.status === "rejected") noteUnseen(end.reason);
}

function listLaunches(streams: readonly LaunchesUnderWay[]): string[] {
  if (streams.length === 0) {
    return ["No launch of this thread was under way: a copy, a Worker or another library may have caused it"];
  }
  const [{ stream, count, descriptions, hasEarlier }] = streams as [LaunchesUnderWay];
  if (streams.length === 1 && count === 1 && !hasEarlier) {
    return [`The only launch known to be under way was ${descriptions[0]} on ${stream}`];
  }
  return [
    "Launches under way, the oldest of each stream first:",
    ...listOf(streams.map(describe), "  and", "more streams"),
  ];
}

function describe({ stream, descriptions, hasEarlier }: LaunchesUnderWay): string {
  const earlier = hasEarlier ? ["and earlier ones"] : [];
  return `  on ${stream}: ${[...listOf(descriptions, "and", "more kernels or shapes"), ...earlier].join(", ")}`;
}

function listOf(texts: readonly string[], and: string, more: string): string[] {
  if (texts.length <= maxListed) return [...texts];
  return [...texts.slice(0, maxListed), `${and} ${texts.length - maxListed} ${more}`];
}
