/**
 * Managed memory: memory that the host and the kernels of all devices access at the same address, and the advice that a
 * program has given for it. On the software device, all memory is in one place, so that moving memory has no effect.
 *
 * @module
 */
import { type MemLocation, memLocationType } from "../../driver.ts";
import type { DeviceAllocation } from "./allocations.ts";
import type { LinearMemory } from "./linear_memory.ts";
import { wholePages } from "./memory_layout.ts";

/** The unit of advice and of prefetches: the size of a page of the host, in bytes. */
const pageByteLength = 4096;

/** Memory from `cudaMallocManaged`. */
export class ManagedMemory implements DeviceAllocation {
  readonly kind = "managed";
  readonly begin: number;
  readonly byteLength: number;
  /** The device that was current when the memory was allocated. */
  readonly device: number;
  readonly #linearMemory: LinearMemory;
  #isReleased = false;

  private constructor(linearMemory: LinearMemory, { begin, byteLength, device }: DeviceAllocation) {
    this.#linearMemory = linearMemory;
    this.begin = begin;
    this.byteLength = byteLength;
    this.device = device;
    linearMemory.allowAll(begin, byteLength);
  }

  /** Allocates memory. Returns undefined if linear memory is full. */
  static allocate(
    linearMemory: LinearMemory,
    { device, byteLength }: { device: number; byteLength: number },
  ): ManagedMemory | undefined {
    const begin = linearMemory.reserve(wholePages(byteLength));
    return begin === undefined ? undefined : new ManagedMemory(linearMemory, { begin, byteLength, device });
  }

  /** Releases the memory. Has no effect if it was already released. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#linearMemory.denyAll(this.begin, this.byteLength);
    this.#linearMemory.discardAndRelease(this.begin, wholePages(this.byteLength), { isShared: false });
  }
}

/** What a program has advised for a page, and to where it last prefetched the page. */
export interface PageAdvice {
  readonly readMostly: boolean;
  readonly preferredLocation: MemLocation;
  /** The devices, or `noDevice.host`, for which the page is always mapped. */
  readonly accessedBy: readonly number[];
  readonly lastPrefetchLocation: MemLocation;
}

const nowhere: MemLocation = { type: memLocationType.none, id: 0 };
const noAdvice: PageAdvice = {
  readMostly: false,
  preferredLocation: nowhere,
  accessedBy: [],
  lastPrefetchLocation: nowhere,
};

/** Pages with the same advice. */
interface AdvisedPages {
  readonly first: number;
  /** The page after the last one. */
  readonly end: number;
  readonly advice: PageAdvice;
}

/** The advice for all managed memory of a driver. */
export class Advice {
  /** The pages with advice, in no order. No two elements overlap. */
  #advised: AdvisedPages[] = [];

  /** Changes the advice for the pages of a range. */
  change(begin: number, byteLength: number, change: (advice: PageAdvice) => PageAdvice): void {
    const { inside, outside } = this.#divide(begin, byteLength);
    this.#advised = [...outside, ...inside.map((pages) => ({ ...pages, advice: change(pages.advice) }))];
  }

  /** Returns the advice for each part of a range. */
  of(begin: number, byteLength: number): PageAdvice[] {
    return this.#divide(begin, byteLength).inside.map(({ advice }) => advice);
  }

  /** Removes all advice for a range, whose memory was freed. */
  delete(begin: number, byteLength: number): void {
    if (this.#advised.length > 0) this.#advised = this.#divide(begin, byteLength).outside;
  }

  /** Divides pages that are only partly in a range. Pages of the range that have no advice yet are added. */
  #divide(begin: number, byteLength: number): { inside: AdvisedPages[]; outside: AdvisedPages[] } {
    const first = Math.floor(begin / pageByteLength), end = Math.ceil((begin + byteLength) / pageByteLength);
    const inside: AdvisedPages[] = [], outside: AdvisedPages[] = [];
    for (const pages of this.#advised) {
      const from = Math.max(pages.first, first), to = Math.min(pages.end, end);
      if (from >= to) {
        outside.push(pages);
        continue;
      }
      inside.push({ first: from, end: to, advice: pages.advice });
      if (pages.first < from) outside.push({ ...pages, end: from });
      if (to < pages.end) outside.push({ ...pages, first: to });
    }
    inside.sort((a, b) => a.first - b.first);
    const gaps: AdvisedPages[] = [];
    let next = first;
    for (const pages of [...inside, { first: end, end }]) {
      if (next < pages.first) gaps.push({ first: next, end: pages.first, advice: noAdvice });
      next = pages.end;
    }
    return { inside: [...inside, ...gaps], outside };
  }
}
