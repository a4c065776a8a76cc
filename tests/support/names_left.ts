/**
 * The names of shared memory by which ranks find each other, which must not stay.
 *
 * @module
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The names of memory in which a process has or had a place. Other processes may be running the same tests. */
export function namesLeftBy(pid: number): string[] {
  return readdirSync("/dev/shm").filter((name) => {
    if (!name.startsWith("poolpass-ranks-")) return false;
    try {
      const { buffer, byteOffset, byteLength } = readFileSync(join("/dev/shm", name));
      return new Uint32Array(buffer.slice(byteOffset, byteOffset + byteLength)).includes(pid);
    } catch {
      // Another process has removed it.
      return false;
    }
  });
}
