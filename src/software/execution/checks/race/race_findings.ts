/**
 * Counts the races of a launch. Races of the same source lines are one finding.
 *
 * @module
 */
import { type KernelVariables, nameShared } from "../variable_names.ts";
import type { ThreadAccess } from "../../../../kernel_checker.ts";
import { addressBase, bytesOfPlace, lineOfPlace, operationOfPlace } from "../../../abi/addresses.ts";
import type { Geometry } from "../../modules/kernel_versions.ts";
import type { Findings, KernelFinding } from "../findings.ts";
import { type ConflictKind, type Relation, relations, wordingOf } from "./race_wording.ts";
import type { Signals } from "./signals.ts";

/** A thread of the launch that accesses memory at a place. */
interface PlacedAccess {
  readonly thread: number;
  readonly place: number;
}

/** Two accesses that conflict. */
export interface RaceConflict {
  readonly kind: ConflictKind;
  readonly later: PlacedAccess;
  readonly earlier: PlacedAccess;
  /** The first byte of the later access, in linear memory. */
  readonly offset: number;
  /** The offset of the shared memory that they access. Undefined for global memory. */
  readonly sharedBegin: number | undefined;
}

/** Conflicts that are counted as one. */
interface CountedConflict {
  /** The conflict whose threads are farthest apart. */
  conflict: RaceConflict;
  relation: Relation;
  count: number;
}

/** Parameters of {@linkcode RaceFindings}. */
export interface RaceFindingsOptions {
  readonly findings: Findings;
  readonly geometry: Geometry;
  readonly sourceOf: (place: number) => string;
  readonly signals: Signals;
  readonly variables: KernelVariables;
  /** Names bytes of linear memory that belong to no buffer. */
  readonly nameOf: (offset: number, bytes: number) => string | undefined;
}

const operations = ["none", "read", "write", "atomic"] as const;

/** The races of a launch. */
export class RaceFindings {
  readonly #options: RaceFindingsOptions;
  readonly #stride: number;
  /** The places at which memory is freed. */
  readonly #frees = new Set<number>();
  /** Conflicts, by the two instructions. */
  readonly #conflicts = new Map<string, CountedConflict>();

  constructor(options: RaceFindingsOptions) {
    this.#options = options;
    const [x, y, z] = options.geometry.block;
    this.#stride = Math.ceil(x * y * z / 32) * 32;
  }

  /** Records that a write at a place stands for a free. */
  noteFree(place: number): void {
    this.#frees.add(place);
  }

  /** Counts a conflict. */
  add(conflict: RaceConflict): void {
    const { kind, later, earlier } = conflict;
    const [a, b] = [lineOfPlace(later.place), lineOfPlace(earlier.place)];
    const key = `race ${kind} ${Math.min(a, b)} ${Math.max(a, b)}`;
    const relation = this.#relationOf(later.thread, earlier.thread);
    const found = this.#conflicts.get(key);
    if (found === undefined) this.#conflicts.set(key, { conflict, relation, count: 1 });
    else addTo(found, { conflict, relation, count: 1 });
  }

  /** Writes the reports. */
  finish(): void {
    const updates = this.#updates();
    for (const [key, all] of this.#bySource()) {
      const most = { ...all[0]!, count: 0 };
      for (const each of all) addTo(most, each);
      const isUpdate = all.some(({ conflict }) => updates.has(conflict));
      this.#options.findings.addCounted(key, this.#describe(most, isUpdate), most.count);
    }
  }

  /** A line becomes several instructions: compilers unroll loops, and an update reads and writes. */
  #bySource(): Map<string, CountedConflict[]> {
    const bySource = new Map<string, CountedConflict[]>();
    for (const found of this.#conflicts.values()) {
      const { kind, later, earlier, sharedBegin } = found.conflict;
      const sources = [later, earlier].map(({ place }) => this.#options.sourceOf(place)).sort();
      const key = ["race", kind, sharedBegin === undefined, ...sources].join(" ");
      const all = bySource.get(key);
      if (all === undefined) bySource.set(key, [found]);
      else all.push(found);
    }
    return bySource;
  }

  /** Conflicts of threads that read an element and write it back, as another thread did. */
  #updates(): Set<RaceConflict> {
    const updates = new Set<RaceConflict>();
    const races = Array.from(this.#conflicts.values(), ({ conflict }) => conflict).filter(({ kind }) =>
      kind === "race"
    );
    const writes = new Map<string, RaceConflict>();
    for (const conflict of races) if (!hasRead(conflict)) writes.set(keyOf(conflict), conflict);
    for (const conflict of races) {
      const write = hasRead(conflict) ? writes.get(keyOf(conflict)) : undefined;
      if (write !== undefined) updates.add(conflict).add(write);
    }
    return updates;
  }

  #describe({ conflict, relation }: CountedConflict, isUpdate: boolean): KernelFinding {
    const { kind, later, earlier, offset, sharedBegin } = conflict;
    const bytes = bytesOfPlace(later.place);
    const shared = sharedBegin === undefined
      ? undefined
      : nameShared(this.#options.variables, offset - sharedBegin, bytes);
    const accesses = [this.#accessOf(later), this.#accessOf(earlier)] as const;
    return {
      check: "race",
      ...wordingOf(kind, {
        relation,
        isShared: shared !== undefined,
        isUpdate,
        isSignalled: this.#options.signals.has(this.#blockOf(earlier.thread), this.#blockOf(later.thread)),
        isOneWarp: this.#stride === 32,
        later: accesses[0],
        earlier: accesses[1],
      }),
      ...shared === undefined
        ? {
          range: { address: addressBase + BigInt(offset), byteLength: bytes },
          memory: this.#options.nameOf(offset, bytes),
        }
        : { memory: shared },
      accesses,
    };
  }

  #accessOf({ thread, place }: PlacedAccess): ThreadAccess {
    const { geometry: { grid, block }, sourceOf } = this.#options;
    const operation = operations[operationOfPlace(place)]!;
    return {
      access: this.#frees.has(place) ? "free" : operation === "none" ? "write" : operation,
      source: sourceOf(place),
      block: indexIn(this.#blockOf(thread), grid),
      thread: indexIn(thread % this.#stride, block),
    };
  }

  #relationOf(a: number, b: number): Relation {
    if (a === b) return "thread";
    if (a >>> 5 === b >>> 5) return "warp";
    return this.#blockOf(a) === this.#blockOf(b) ? "block" : "grid";
  }

  #blockOf(thread: number): number {
    return Math.floor(thread / this.#stride);
  }
}

function addTo(found: CountedConflict, { conflict, relation, count }: CountedConflict): void {
  found.count += count;
  if (relations.indexOf(relation) <= relations.indexOf(found.relation)) return;
  found.conflict = conflict;
  found.relation = relation;
}

function hasRead({ later, earlier }: RaceConflict): boolean {
  return [later, earlier].some(({ place }) => operations[operationOfPlace(place)] === "read");
}

/** Equal for two conflicts of a thread on the same memory. */
function keyOf({ later, earlier, offset }: RaceConflict): string {
  return `${later.thread} ${earlier.thread} ${offset}`;
}

function indexIn(number: number, [x, y]: readonly [number, number, number]): [number, number, number] {
  return [number % x, Math.floor(number / x) % y, Math.floor(number / (x * y))];
}
