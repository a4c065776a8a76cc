import { defaultStream, type Driver, type KernelLaunch } from "../driver.ts";
import { isLoss } from "../support/driver_errors.ts";
import { callSite } from "../support/leaks.ts";
import { type LaunchesUnderWay, type LaunchObserver, observeLosses } from "../support/lost_devices.ts";
import type { StreamProgress } from "./stream_progress.ts";

/** How many launches of each stream are remembered. */
const remembered = 128;

/** A launch. Each object serves launch after launch, so that to note one allocates nothing. */
class Launch {
  kernel = "";
  gridX = 0;
  gridY = 0;
  gridZ = 0;
  blockX = 0;
  blockY = 0;
  blockZ = 0;
  /** The stream's position, before the launch; see `StreamProgress`. */
  position = -1;
  /** With POOLPASS_DEBUG=1, where it was launched. */
  site: string | undefined;
  /** The object for the next launch. */
  next: Launch | undefined;
}

/** The stream that launches are noted for. */
interface LaunchStream {
  /** "the default stream of device 0" */
  readonly name: string;
  readonly progress: StreamProgress;
  readonly debug: boolean;
}

/** The latest launches on a stream. Refers to no kernel and no memory, which it would keep from being collected. */
export class StreamLaunches {
  readonly #name: string;
  readonly #progress: StreamProgress;
  readonly #debug: boolean;
  /** A linked list, which is closed to a ring when it is full. Faster than an array: no index is checked. */
  readonly #first = new Launch();
  #size = 1;
  /** The object for the next launch. */
  #next: Launch = this.#first;
  /** The position of the latest launch that was overwritten; -1 if none was. */
  #forgotten = -1;

  constructor({ name, progress, debug }: LaunchStream) {
    this.#name = name;
    this.#progress = progress;
    this.#debug = debug;
  }

  /** Notes a launch. `launcher` is the function that the program has called. */
  note(kernel: string, shape: KernelLaunch, launcher: (...given: never[]) => unknown): void {
    const launch = this.#next;
    const { next } = launch;
    this.#next = next === undefined ? this.#growAfter(launch) : next;
    this.#forgotten = launch.position;
    launch.kernel = kernel;
    launch.gridX = shape.gridX;
    launch.gridY = shape.gridY;
    launch.gridZ = shape.gridZ;
    launch.blockX = shape.blockX;
    launch.blockY = shape.blockY;
    launch.blockZ = shape.blockZ;
    launch.position = this.#progress.position;
    if (this.#debug) launch.site = callSite(launcher);
  }

  /** Describes the launches that are not known to be complete. Undefined if there are none. */
  underWay(): LaunchesUnderWay | undefined {
    const { completed } = this.#progress;
    const launches = this.#inOrder().filter(({ position }) => position >= completed);
    if (launches.length === 0) return undefined;
    const equal = Map.groupBy(launches, (launch) => describe(launch, 1));
    const descriptions = Array.from(equal.values(), (group) => describe(group[0]!, group.length));
    return { stream: this.#name, count: launches.length, descriptions, hasEarlier: this.#forgotten >= completed };
  }

  #growAfter(launch: Launch): Launch {
    if (this.#size === remembered) return launch.next = this.#first;
    this.#size++;
    return launch.next = new Launch();
  }

  #inOrder(): Launch[] {
    const launches: Launch[] = [];
    let launch = this.#next.next === undefined ? this.#first : this.#next;
    for (; launches.length < this.#size; launch = launch.next!) launches.push(launch);
    return launches;
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
  /** Ends the listing of launches, at the session's end. */
  readonly stop: () => void;

  constructor(session: LaunchSession) {
    this.#session = session;
    this.stop = observeLosses(this);
  }

  get hasCallSites(): boolean {
    return this.#session.debug;
  }

  add(stream: Omit<LaunchStream, "debug">): StreamLaunches {
    const launches = new StreamLaunches({ ...stream, debug: this.#session.debug });
    this.#streams.add(launches);
    return launches;
  }

  delete(stream: StreamLaunches): void {
    this.#streams.delete(stream);
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

function describe({ kernel, gridX, gridY, gridZ, blockX, blockY, blockZ, site }: Launch, count: number): string {
  const blocks = `${formatExtents([gridX, gridY, gridZ])} ${gridX * gridY * gridZ === 1 ? "block" : "blocks"}`;
  const threads = `${formatExtents([blockX, blockY, blockZ])} ${blockX * blockY * blockZ === 1 ? "thread" : "threads"}`;
  return `${kernel}${count === 1 ? "" : ` x ${count}`} (${blocks} of ${threads}${
    site === undefined ? "" : `, launched at ${site}`
  })`;
}

/** "4", or "4 x 2": without the last extents of 1. */
function formatExtents([x, y, z]: readonly [number, number, number]): string {
  return z > 1 ? `${x} x ${y} x ${z}` : y > 1 ? `${x} x ${y}` : String(x);
}
