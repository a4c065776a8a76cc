import type { AccessibleRange } from "./accessible_range.ts";

/** Records which devices' kernels may access the memory of which peers. Pools keep their own access flags. */
export class PeerAccess {
  /** For each device, the peers whose memory it may access. */
  readonly #peers = new Map<number, Set<number>>();
  readonly #ranges = new Set<AccessibleRange>();

  isEnabled(device: number, peer: number): boolean {
    return this.#peers.get(device)?.has(peer) === true;
  }

  /** Grants a device's kernels access to all memory of a peer. */
  enable(device: number, peer: number): void {
    const peers = this.#peers.get(device) ?? new Set();
    this.#peers.set(device, peers.add(peer));
    for (const range of this.#ranges) if (range.device === peer) range.allow(device);
  }

  disable(device: number, peer: number): void {
    this.#peers.get(device)?.delete(peer);
    for (const range of this.#ranges) if (range.device === peer) range.deny(device);
  }

  /**
   * Adds memory. Grants access to the kernels of its own device, and to those of devices with access to that device.
   */
  add(range: AccessibleRange): void {
    this.#ranges.add(range);
    range.allow(range.device);
    for (const [device, peers] of this.#peers) if (peers.has(range.device)) range.allow(device);
  }

  /** Removes memory and revokes the access of all kernels. */
  remove(range: AccessibleRange): void {
    this.#ranges.delete(range);
    range.denyAll();
  }
}
