import type { AccessibleRange } from "./accessible_range.ts";

/** Which devices' kernels may access the memory of which others, that of pools aside. */
export class PeerAccess {
  /** By device, the peers whose memory it may access. */
  readonly #peers = new Map<number, Set<number>>();
  readonly #ranges = new Set<AccessibleRange>();

  isEnabled(device: number, peer: number): boolean {
    return this.#peers.get(device)?.has(peer) === true;
  }

  /** Lets a device's kernels access all memory of a peer. */
  enable(device: number, peer: number): void {
    const peers = this.#peers.get(device) ?? new Set();
    this.#peers.set(device, peers.add(peer));
    for (const range of this.#ranges) if (range.device === peer) range.allow(device);
  }

  disable(device: number, peer: number): void {
    this.#peers.get(device)?.delete(peer);
    for (const range of this.#ranges) if (range.device === peer) range.deny(device);
  }

  /** Lets the kernels of its own device access memory, and those that have access to that device's. */
  add(range: AccessibleRange): void {
    this.#ranges.add(range);
    range.allow(range.device);
    for (const [device, peers] of this.#peers) if (peers.has(range.device)) range.allow(device);
  }

  /** No kernel may access the memory any more. */
  remove(range: AccessibleRange): void {
    this.#ranges.delete(range);
    range.denyAll();
  }
}
