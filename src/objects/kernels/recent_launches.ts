import type { Dim3 } from "./launch_options.ts";
import { defaultStream, type Driver } from "../../driver.ts";
import { isLoss } from "../../support/driver_errors.ts";
import { callSite } from "../../support/leaks.ts";
import { type LaunchesUnderWay, type LaunchObserver, observeLosses } from "../../support/lost_devices.ts";
import type { StreamProgress } from "../streams/stream_progress.ts";

/** The size of the ring of a stream's launches: a power of two. */
const ringSize = 128;

/** A launch. The objects are reused, so that recording a launch allocates nothing. */
class Launch {
  kernel = "";
  /** As the program gave it: if that is an array which it changes later, the error lists the changed extents. */
  grid: Dim3 = 0;
  block: Dim3 = 0;
  /** The stream's position, before the launch; see `StreamProgress`. -1 if there was none yet. */
  position = -1;
  /** With POOLPASS_DEBUG=1, where it was launched. */
  site: string | undefined;
}

type Ring = readonly Launch[];

/** How many rings of streams that are gone are kept for later streams: a new one takes as long as a stream. */
const maximumSpares = 16;

/** The stream whose launches are recorded. */
interface LaunchStream {
  /** "the default stream of device 0" */
  readonly name: string;
  readonly progress: StreamProgress;
}

/** The latest launches on a stream. Refers to no kernel and no memory, which it would keep from being collected. */
export class StreamLaunches {
  readonly #name: string;
  readonly #progress: StreamProgress;
  /** A ring. An index into an array costs less than a reference to the next object, whose store has a write barrier. */
  readonly #ring: Ring;
  /** The index of the latest launch. */
  #latest = 0;

  constructor({ name, progress }: LaunchStream, ring: Ring) {
    this.#name = name;
    this.#progress = progress;
    this.#ring = ring;
  }

  /** Returns the ring, emptied, for another stream: this one is gone. */
  takeRing(): Ring {
    for (const launch of this.#ring) {
      if (launch.position < 0) continue;
      launch.position = -1;
      launch.kernel = "";
      launch.grid = launch.block = 0;
      launch.site = undefined;
    }
    return this.#ring;
  }

  /** Records a launch. `launcher`, the function that the program has called, is for {@linkcode TracedStreamLaunches}. */
  note(kernel: string, grid: Dim3, block: Dim3, _launcher: unknown): void {
    this.#latest = (this.#latest + 1) & (ringSize - 1);
    const launch = this.#ring[this.#latest]!;
    launch.kernel = kernel;
    launch.grid = grid;
    launch.block = block;
    launch.position = this.#progress.position;
  }

  /** Records where the latest launch was made. */
  protected noteSite(site: string | undefined): void {
    this.#ring[this.#latest]!.site = site;
  }

  /** Describes the launches that are not known to be complete. Undefined if there are none. */
  underWay(): LaunchesUnderWay | undefined {
    const { completed } = this.#progress;
    const oldest = this.#latest + 1;
    const inOrder = [...this.#ring.slice(oldest), ...this.#ring.slice(0, oldest)];
    const launches = inOrder.filter(({ position }) => position >= completed);
    if (launches.length === 0) return undefined;
    // If the whole ring is under way, earlier launches may be, too. The oldest then only says so, and is not listed.
    const hasEarlier = launches.length === ringSize;
    if (hasEarlier) launches.shift();
    const equal = Map.groupBy(launches, (launch) => describe(launch, 1));
    const descriptions = Array.from(equal.values(), (group) => describe(group[0]!, group.length));
    return { stream: this.#name, count: launches.length, descriptions, hasEarlier };
  }
}

/**
 * The latest launches on a stream, and where each was made. A class of its own: with a question in `note`, V8 no longer
 * inlines it into the launch, which then takes 3 ns more.
 */
class TracedStreamLaunches extends StreamLaunches {
  override note(kernel: string, grid: Dim3, block: Dim3, launcher: (...given: never[]) => unknown): void {
    super.note(kernel, grid, block, launcher);
    this.noteSite(callSite(launcher));
  }
}

/** The parts of a session that are needed here. */
interface LaunchSession {
  /** Replaced when the session ends. */
  readonly driver: Driver;
  readonly debug: boolean;
  readonly streams: Iterable<{ readonly device: { readonly ordinal: number } }>;
}

/**
 * The latest launches on each stream of a session, for the error of a lost device. A stream stays until it was disposed
 * and its work is known to be complete.
 */
export class RecentLaunches implements LaunchObserver {
  readonly #session: LaunchSession;
  readonly #streams = new Set<StreamLaunches>();
  readonly #spareRings: Ring[] = [];
  /** Ends the listing of launches, at the session's end. */
  readonly stop: () => void;

  constructor(session: LaunchSession) {
    this.#session = session;
    this.stop = observeLosses(this);
  }

  get hasCallSites(): boolean {
    return this.#session.debug;
  }

  add(stream: LaunchStream): StreamLaunches {
    const ring = this.#spareRings.pop() ?? Array.from({ length: ringSize }, () => new Launch());
    const launches = this.#session.debug ? new TracedStreamLaunches(stream, ring) : new StreamLaunches(stream, ring);
    this.#streams.add(launches);
    return launches;
  }

  delete(stream: StreamLaunches): void {
    if (this.#streams.delete(stream) && this.#spareRings.length < maximumSpares) {
      this.#spareRings.push(stream.takeRing());
    }
  }

  areDevicesLost(): boolean {
    const ordinals = new Set(Array.from(this.#session.streams, ({ device }) => device.ordinal));
    return [...ordinals].some((ordinal) => {
      try {
        // A default stream cannot have been destroyed meanwhile.
        this.#session.driver.streamQuery(ordinal, defaultStream, { peek: true });
        return false;
      } catch (error) {
        return isLoss(error);
      }
    });
  }

  launchesUnderWay(): LaunchesUnderWay[] {
    return Array.from(this.#streams, (stream) => stream.underWay()).filter((launches) => launches !== undefined);
  }
}

function describe({ kernel, grid, block, site }: Launch, count: number): string {
  const blocks = `${formatExtents(grid)} ${countOfExtents(grid) === 1 ? "block" : "blocks"}`;
  const threads = `${formatExtents(block)} ${countOfExtents(block) === 1 ? "thread" : "threads"}`;
  return `${kernel}${count === 1 ? "" : ` x ${count}`} (${blocks} of ${threads}${
    site === undefined ? "" : `, launched at ${site}`
  })`;
}

function extentsOf(dimensions: Dim3): number[] {
  return typeof dimensions === "number" ? [dimensions] : Array.from(dimensions, (extent) => extent ?? 1);
}

function countOfExtents(dimensions: Dim3): number {
  return extentsOf(dimensions).reduce((product, extent) => product * extent, 1);
}

/** "4", or "4 x 2": without the last extents of 1. */
function formatExtents(dimensions: Dim3): string {
  const extents = extentsOf(dimensions);
  while (extents.length > 1 && extents.at(-1) === 1) extents.pop();
  return extents.join(" x ");
}
