import type { Dim3 } from "./launch_options.ts";
import { defaultStream, type Driver } from "../../driver.ts";
import { isLoss } from "../../support/driver_errors.ts";
import { callSite } from "../../support/leaks.ts";
import { type LaunchesUnderWay, type LaunchObserver, observeLosses } from "../../support/lost_devices.ts";
import type { StreamProgress } from "../streams/stream_progress.ts";

/** The number of launches that are kept per stream: a power of two. */
const ringSize = 128;

/** A recorded launch. The objects are reused, so that recording a launch allocates no memory. */
class Launch {
  kernel = "";
  /**
   * The grid as the program passed it: if it is an array that is changed later, the error lists the changed extents.
   */
  grid: Dim3 = 0;
  block: Dim3 = 0;
  /** The stream's position before the launch, as in `StreamProgress`; -1 if this object is unused. */
  position = -1;
  /** The call site of the launch, with POOLPASS_DEBUG=1. */
  site: string | undefined;
}

type Ring = readonly Launch[];

/**
 * Maximum number of rings of destroyed streams that are kept for new streams, because creating a ring takes as long as
 * creating a stream.
 */
const maximumSpares = 16;

/** A stream on which launches are recorded. */
interface LaunchStream {
  /** The name in messages: "the default stream of device 0". */
  readonly name: string;
  readonly progress: StreamProgress;
}

/**
 * The latest launches on a stream. Holds no references to kernels or memory, which would prevent their garbage
 * collection.
 */
export class StreamLaunches {
  readonly #name: string;
  readonly #progress: StreamProgress;
  /**
   * The ring buffer of launches. The latest launch is stored as an index, because storing a reference to an object
   * would need a write barrier of the garbage collector.
   */
  readonly #ring: Ring;
  /** The index of the latest launch. */
  #latest = 0;

  constructor({ name, progress }: LaunchStream, ring: Ring) {
    this.#name = name;
    this.#progress = progress;
    this.#ring = ring;
  }

  /** Empties the ring and returns it for reuse by another stream. This object's stream must have been destroyed. */
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

  /** Records a launch. `launcher` is the function that the program called, for {@linkcode TracedStreamLaunches}. */
  note(kernel: string, grid: Dim3, block: Dim3, _launcher: unknown): void {
    this.#latest = (this.#latest + 1) & (ringSize - 1);
    const launch = this.#ring[this.#latest]!;
    launch.kernel = kernel;
    launch.grid = grid;
    launch.block = block;
    launch.position = this.#progress.position;
  }

  /** Records the call site of the latest launch. */
  protected noteSite(site: string | undefined): void {
    this.#ring[this.#latest]!.site = site;
  }

  /** Describes the launches that are not known to be complete. Returns undefined if there are none. */
  underWay(): LaunchesUnderWay | undefined {
    const { completed } = this.#progress;
    const oldest = this.#latest + 1;
    const inOrder = [...this.#ring.slice(oldest), ...this.#ring.slice(0, oldest)];
    const launches = inOrder.filter(({ position }) => position >= completed);
    if (launches.length === 0) return undefined;
    // If all launches in the ring are pending, launches before them may be pending too. The oldest launch of the ring
    // only serves to detect this, and is not listed.
    const hasEarlier = launches.length === ringSize;
    if (hasEarlier) launches.shift();
    const equal = Map.groupBy(launches, (launch) => describe(launch, 1));
    const descriptions = Array.from(equal.values(), (group) => describe(group[0]!, group.length));
    return { stream: this.#name, count: launches.length, descriptions, hasEarlier };
  }
}

/**
 * The latest launches on a stream, with the call site of each. A separate class, because with a condition in `note`, V8
 * no longer inlines it into the launch, which then takes 3 ns longer.
 */
class TracedStreamLaunches extends StreamLaunches {
  override note(kernel: string, grid: Dim3, block: Dim3, launcher: (...given: never[]) => unknown): void {
    super.note(kernel, grid, block, launcher);
    this.noteSite(callSite(launcher));
  }
}

/** The members of a session that `RecentLaunches` uses. */
interface LaunchSession {
  /** The driver, which is replaced when the session ends. */
  readonly driver: Driver;
  readonly debug: boolean;
  readonly streams: Iterable<{ readonly device: { readonly ordinal: number } }>;
}

/**
 * The latest launches on each stream of a session, for the error of a lost device. A stream is removed once it was
 * disposed and its work is known to be complete.
 */
export class RecentLaunches implements LaunchObserver {
  readonly #session: LaunchSession;
  readonly #streams = new Set<StreamLaunches>();
  readonly #spareRings: Ring[] = [];
  /** Unregisters this observer of lost devices. Called at the end of the session. */
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
        // Queries the default stream, because any other stream may have been destroyed in the meantime.
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

/** Formats extents without trailing ones: "4", or "4 x 2". */
function formatExtents(dimensions: Dim3): string {
  const extents = extentsOf(dimensions);
  while (extents.length > 1 && extents.at(-1) === 1) extents.pop();
  return extents.join(" x ");
}
