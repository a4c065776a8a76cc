import { checkState } from "../../../abi/check_state.ts";
import type { LaunchCells } from "../../../memory/check_memory.ts";
import type { BlockClocks } from "./block_clocks.ts";
import { Releases } from "./releases.ts";
import { type AccessNodes, ShadowPage } from "./shadow_memory.ts";

/** The running block: the clocks of its threads, and the accesses to its shared memory. */
export class BlockRaces {
  readonly clocks: BlockClocks;
  /** Offset of its shared memory in linear memory. */
  sharedBegin = 0;
  sharedBytes = 0;
  shared: ShadowPage;
  /** The accesses to its shared memory. */
  readonly releases: Releases = new Releases();
  readonly #nodes: AccessNodes;
  readonly #memory: LaunchCells;

  constructor(clocks: BlockClocks, nodes: AccessNodes, memory: LaunchCells) {
    this.clocks = clocks;
    this.#nodes = nodes;
    this.#memory = memory;
    this.shared = this.#newPage();
  }

  #newPage(): ShadowPage {
    const { state } = this.#memory;
    const range = { begin: this.sharedBegin, byteLength: this.sharedBytes };
    return new ShadowPage(range, this.#memory, (entry) => state[checkState.sharedCells / 4] = entry);
  }

  /** Publishes the block's state to compiled code, before the block runs. */
  publish(): void {
    const { state } = this.#memory;
    state[checkState.sharedBegin / 4] = this.sharedBegin;
    state[checkState.sharedBytes / 4] = this.sharedBytes;
    state[checkState.clocks / 4] = this.clocks.offset;
    this.shared.publish();
  }

  /** Starts a block in place of the previous one. */
  begin(block: number): void {
    this.clocks.begin(block);
    this.shared.clear(this.#nodes);
    this.releases.clear();
  }

  /** Sets the offset of its shared memory. */
  place(begin: number, byteLength: number): void {
    if (begin !== this.sharedBegin || byteLength !== this.sharedBytes) {
      this.sharedBegin = begin;
      this.sharedBytes = byteLength;
      this.shared = this.#newPage();
    }
  }
}
