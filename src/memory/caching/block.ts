import type { CudaStream } from "../../objects/cuda_stream.ts";
import type { BufferOwner, DeviceBuffer, SlabPart } from "../device_buffer.ts";
import type { FreeList } from "./free_list.ts";

/** Memory of the pool that buffers are cut from. */
export interface Slab {
  readonly buffer: DeviceBuffer;
  /** The block at its begin. */
  readonly first: Block;
}

/** Who hands blocks out. */
export interface BlockOwner {
  /** A buffer has given its block back, in the stream's order. */
  release(block: Block, stream: CudaStream): void;
  /** A buffer was freed, and its block is given back once those who keep it have let go. */
  awaitRelease(block: Block): void;
}

/**
 * A piece of a slab: a buffer's, or free. It is what a buffer's memory is given back by, so that a free need not look for
 * it.
 */
export class Block implements BufferOwner {
  readonly slab: Slab;
  readonly address: bigint;
  /** Where in the slab it begins. */
  readonly byteOffset: number;
  readonly isHostMemory: boolean;
  byteLength: number;
  /** The block that ends where this begins, and the one that begins where this ends. */
  before: Block | undefined = undefined;
  after: Block | undefined = undefined;
  /** In whose order it is free; undefined while a buffer has it. */
  home: FreeList | undefined = undefined;
  /** Of the stream on which the buffer was allocated that has it, or had it last. */
  user: FreeList | undefined = undefined;
  /** Whether it is free and not to be merged with others: it is likely to be asked for again as it is. */
  isUnmerged = false;
  /** How often its home had been marked when it was freed. */
  epoch = 0;
  /** Among the free blocks of a kind. */
  next: Block | undefined = undefined;
  previous: Block | undefined = undefined;
  readonly #owner: BlockOwner;

  constructor(owner: BlockOwner, parts: { slab: DeviceBuffer | Slab; byteOffset: number; byteLength: number }) {
    const { slab, byteOffset, byteLength } = parts;
    this.#owner = owner;
    this.slab = "first" in slab ? slab : { buffer: slab, first: this };
    this.address = this.slab.buffer.address + BigInt(byteOffset);
    this.byteOffset = byteOffset;
    this.byteLength = byteLength;
    this.isHostMemory = this.slab.buffer.pool?.device === undefined;
  }

  release(_address: bigint, _byteLength: number, stream: CudaStream): void {
    this.#owner.release(this, stream);
  }

  get part(): SlabPart {
    return { slab: this.slab.buffer, byteOffset: this.byteOffset };
  }

  awaitRelease(): void {
    this.#owner.awaitRelease(this);
  }

  /** Cuts it in two and returns the other one, from `byteLength` on. */
  split(byteLength: number): Block {
    const { slab, after } = this;
    const rest = new Block(this.#owner, {
      slab,
      byteOffset: this.byteOffset + byteLength,
      byteLength: this.byteLength - byteLength,
    });
    this.byteLength = byteLength;
    rest.before = this;
    rest.after = after;
    this.after = rest;
    if (after !== undefined) after.before = rest;
    return rest;
  }

  /** Takes in the block after it, which is no more. */
  merge(): void {
    const { after } = this;
    this.byteLength += after!.byteLength;
    this.after = after!.after;
    if (this.after !== undefined) this.after.before = this;
    if (after!.epoch > this.epoch) this.epoch = after!.epoch;
  }
}

/** The blocks of a slab, in the order of their addresses. */
export function* blocksOf(slab: Slab): Generator<Block> {
  for (let block: Block | undefined = slab.first; block !== undefined; block = block.after) yield block;
}
