/**
 * What ranks find each other by: ids that one of them creates, and those that all of them derive from a communicator.
 *
 * @module
 */
import { sha256 } from "../../support/sha256.ts";

const idByteLength = 128;
/** How an id begins, so that an id of NCCL is noticed. */
const magic = new TextEncoder().encode("poolpass collectives 1 ");

/** Creates an id, which no other communicator has. */
export function createId(): Uint8Array<ArrayBuffer> {
  const id = crypto.getRandomValues(new Uint8Array(idByteLength));
  id.set(magic);
  return id;
}

/** The key of the ranks that have an id: 64 hexadecimal digits. Throws if `createId` did not create it. */
export function keyOfId(id: Uint8Array): string {
  if (id.byteLength !== idByteLength) {
    throw new RangeError(
      `Cannot create a communicator: an id has ${idByteLength} bytes, and this one ${id.byteLength}; give all ranks the ` +
        `id that one of them has created`,
    );
  }
  if (magic.some((byte, index) => id[index] !== byte)) {
    throw new RangeError(
      `Cannot create a communicator: the id is not one of the software device's; all ranks must be on software devices, ` +
        `and one of them must create the id`,
    );
  }
  return sha256(id).toHex();
}

/** The key of ranks that one communicator is divided into. `which` tells them from others of the same communicator. */
export function derivedKey(key: string, which: string): string {
  return sha256(new TextEncoder().encode(`${key} ${which}`)).toHex();
}
