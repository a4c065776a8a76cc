/**
 * Pairs of kernels: one in which everything has an order, and one from the same lines that lacks some of it. The check of
 * races is silent about the first, and reports the second.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { test } from "../../support/test.ts";
import { type KernelLaunch, reportsOf } from "../kernel_pairs.ts";

/** How a pair is launched, and what the wrong one is reported as. */
interface Pair extends KernelLaunch {
  /** All kinds of reports that the wrong one gets. Default: races in the memory that the file is about. */
  readonly kinds?: readonly string[];
}

const check = "race";
const inShared = ["shared-race"];
const inGlobal = ["global-race"];

const pairs: Readonly<Record<string, Readonly<Record<string, Pair>>>> = {
  shared_memory: {
    reduce: { grid: 4, block: 256 },
    reverse: { block: 128 },
    reverse_dynamic: { block: 128, sharedMemoryBytes: 4096 },
    scan: { block: 64 },
    scan_two_buffers: { block: 64 },
    histogram: { block: 64 },
    histogram_cleared: { block: 64 },
    histogram_read: { block: 64 },
    transpose: { block: [16, 16] },
    multiply: { block: [8, 8] },
    stencil: { block: 64 },
    broadcast: { block: 64 },
    broadcast_twice: { block: 64 },
    any_flag: { block: 64 },
    bytes: { block: 64 },
    widths: { block: 64 },
    named_barrier: { block: 128 },
    producer: { block: 128 },
    counted: { block: 128 },
    blocks: { grid: 4, block: 32 },
    copies: { block: 128, kinds: ["unfinished-copy"] },
    phases: { block: 64 },
    ended_barrier: { block: 64 },
    copy_groups: { block: 64, kinds: ["unfinished-copy"] },
  },
  warps: {
    warp_reduce: { block: 32 },
    warp_volatile: { block: 32 },
    shuffled: { block: 32 },
    voted: { block: 32 },
    half_warps: { block: 32 },
    other_warps: { block: 64 },
    leader: { block: 128 },
    warp_global: { block: 32, kinds: inGlobal },
    learned: { block: 64 },
  },
  volatile_shared: {
    last_warp: { block: 128 },
    steps: { block: 128 },
    largest: { block: 128 },
    sums_of_warps: { block: 128 },
    ring: { block: 64 },
    some_warps: { block: 128 },
    handshake: { block: 64 },
    read_once: { block: 64 },
    leaders: { block: 64 },
    plain_ring: { block: 64 },
    cancelled: { block: 128 },
    locked: { block: 128 },
    getter: { block: 64 },
    stored_again: { block: 64 },
  },
  global_memory: {
    increment: { block: 2 },
    global_histogram: { grid: 4, block: 64 },
    maximum: { grid: 4, block: 64 },
    smooth: { grid: 4, block: 64 },
    overlap: { grid: 4, block: 64 },
    same_block: { grid: 4, block: 64 },
    other_block: { grid: 4, block: 64 },
    found: { grid: 4, block: 64 },
    progress: { grid: 2, block: 32 },
    cleared: { grid: 2, block: 32 },
    compact: { grid: 4, block: 64 },
    block_scope: { grid: 4, block: 64, kinds: ["insufficient-scope"] },
    own_counter: { grid: 4, block: 64, kinds: ["insufficient-scope"] },
    halves: { grid: 2, block: 32 },
    linked: { grid: 2, block: 32 },
    flags: { grid: 4, block: 64 },
    module_variable: { grid: 2, block: 32 },
    heap: { grid: 2, block: 32 },
    freed: { block: 64 },
    cached: { block: 64, kinds: ["non-coherent-read"] },
    levels: { grid: 2, block: 64 },
  },
  order: {
    flag: { grid: 2, block: 1 },
    flag_writer: { grid: 2, block: 1 },
    flag_scope: { grid: 2, block: 1, kinds: ["insufficient-scope"] },
    release_acquire: { grid: 2, block: 1 },
    release_relaxed: { grid: 2, block: 1 },
    cumulative: { grid: 2, block: 64 },
    cumulative_reader: { grid: 2, block: 64 },
    chain: { grid: 3, block: 1 },
    transitive: { grid: 3, block: 1 },
    last_block: { grid: 4, block: 32 },
    spin_lock: { grid: 4, block: 32 },
    spin_lock_early: { grid: 4, block: 32 },
    ticket_lock: { grid: 4, block: 32 },
    thread_lock: { block: 64 },
    grid_sync: { grid: 4, block: 64, cooperative: true },
    grid_sync_twice: { grid: 4, block: 64, cooperative: true },
    tiles: { block: 64, kinds: inShared },
    lookback: { grid: 4, block: 64 },
    queue: { grid: 2, block: 1 },
    relaxed_counter: { grid: 2, block: 32 },
    fence_alone: { grid: 2, block: 1 },
    fences_around_barriers: { grid: 2, block: 64 },
    fences_around_warp_barriers: { grid: 2, block: 64 },
    counter_reset: { grid: 4, block: 1 },
  },
};

for (const [file, kernels] of Object.entries(pairs)) {
  for (const [index, [name, pair]] of Object.entries(kernels).entries()) {
    const { kinds = file === "global_memory" || file === "order" ? inGlobal : inShared } = pair;
    const ptx = new URL(`${file}.ptx`, import.meta.url);
    test(`${file}: ${name}`, { long: index % 2 !== 0 }, () => {
      assertEquals(reportsOf(ptx, `${name}_right`, { ...pair, check }).map(({ message }) => message), []);
      const reports = reportsOf(ptx, `${name}_wrong`, { ...pair, check });
      assertEquals([...new Set(reports.map(({ kind }) => kind))].sort(), [...kinds]);
      for (const { check: found, message, accesses: [later, earlier] } of reports) {
        assertEquals(found, check);
        for (const access of [later!, earlier!]) {
          assert(access.block !== undefined && access.thread !== undefined);
          assertStringIncludes(message, access.source!);
        }
      }
    });
  }
}
