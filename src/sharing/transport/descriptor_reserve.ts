import { descriptorLimit, lowestFreeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import type { Peer } from "./unix_socket.ts";

/** The part of the descriptors that connections may not take, and the least and most that this is. */
const reservedPart = 1 / 16;
const [leastReserved, mostReserved] = [8, 64];
/** The number of connections above which a process or user gets no more while few descriptors are left. */
const fewConnections = 8;

/**
 * Keeps descriptors free for everything but connections: without one, the runtime may panic, memory can be neither
 * exported nor sent, and no error can be looked into. Before that, keeps some for processes and users that have few
 * connections.
 *
 * The kernel gives out the lowest number that is free, so the highest ones are left if those below them are taken.
 */
export class DescriptorReserve {
  readonly #limit = descriptorLimit();
  readonly #reserved = Math.max(leastReserved, Math.min(Math.floor(this.#limit * reservedPart), mostReserved));

  /**
   * Returns the limit that a new connection exceeds, whose descriptors are open already; undefined if it may be kept.
   *
   * @param others returns the peers of all other connections
   */
  exceeded(
    { pid, uid }: Peer,
    { users, others }: { users: number; others: () => readonly Peer[] },
  ): { readonly limit: string; readonly isForAll: boolean } | undefined {
    const [lowest, few] = [lowestFreeDescriptor(), 2 * this.#reserved];
    if (lowest < this.#limit - few) return undefined;
    const exceeds = (what: string, left: number, isForAll = false) => {
      const why = `${left} descriptors of ${this.#limit} are left; raise the limit of that process (ulimit -n)`;
      return { limit: `${what} ${why}`, isForAll };
    };
    if (lowest >= this.#limit - this.#reserved) return exceeds("reached when", this.#reserved, true);
    const all = others();
    const ofUser = all.filter((peer) => peer.uid === uid);
    if (ofUser.filter((peer) => peer.pid === pid).length >= fewConnections) {
      return exceeds(`${fewConnections} connections of a process while at most`, few);
    }
    if (ofUser.length <= Math.max(fewConnections, all.length / users)) return undefined;
    return exceeds("an equal share for each user while at most", few);
  }
}
