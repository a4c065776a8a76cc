/**
 * Reads and writes of files by descriptor that do not block the event loop, so that several of them run at a time.
 *
 * @module
 */
import { dlopen, type NativeFunctions } from "./host.ts";
import { describeDescriptor, readAt, sealShrink, writeAt } from "./shim/descriptors.ts";

const symbols = {
  pread: {
    parameters: ["i32", /* int fd */ "buffer", /* void *buf */ "u64", /* size_t count */ "i64" /* off_t offset */],
    result: "i64",
    nonblocking: true,
  },
  pwrite: {
    parameters: [
      "i32",
      /* int fd */ "buffer",
      /* const void *buf */ "u64",
      /* size_t count */ "i64", /* off_t offset */
    ],
    result: "i64",
    nonblocking: true,
  },
  close: { parameters: ["i32" /* int fd */], result: "i32", nonblocking: true },
} as const;

/** A function of `node:fs` that reads or writes a part of a file. */
type Transfer = (
  fd: number,
  bytes: Uint8Array,
  offset: number,
  length: number,
  position: number,
  done: (error: Error | null, count: number) => void,
) => void;

interface FileSystem extends Readonly<Record<"read" | "write", Transfer>> {
  close(fd: number, done: (error: Error | null) => void): void;
}

let libc: NativeFunctions<typeof symbols> | undefined;

/** Reads at an offset of a file. Resolves to the number of bytes read, which is less than all only at its end. */
export async function readAside(
  fd: number,
  bytes: Uint8Array,
  { offset }: { readonly offset: number },
): Promise<number> {
  let length = 0;
  while (length < bytes.length) {
    const rest = bytes.subarray(length);
    let count = await transfer("read", fd, rest, offset + length);
    // Repeats a call that has failed in order to throw its error.
    if (count < 0) count = readAt(fd, rest, { offset: offset + length });
    if (count === 0) break;
    length += count;
  }
  return length;
}

/** Writes all bytes at an offset of a file. */
export async function writeAside(
  fd: number,
  bytes: Uint8Array,
  { offset }: { readonly offset: number },
): Promise<void> {
  for (let length = 0; length < bytes.length;) {
    const rest = bytes.subarray(length);
    const count = await transfer("write", fd, rest, offset + length);
    if (count <= 0) return writeAt(fd, rest, { offset: offset + length });
    length += count;
  }
}

/**
 * Returns whether a file has at least `byteLength` bytes and no process can shrink it: writing to a mapping behind the
 * end of a file kills the process.
 */
export function isSafeToMap(fd: number, byteLength: number): boolean {
  const { seals = 0, byteLength: size } = describeDescriptor(fd);
  return (seals & sealShrink) !== 0 && size >= byteLength;
}

/** Closes a descriptor on another thread, for a file that takes long to free: a large memory file. */
export function closeOnThread(fd: number): void {
  if ("Deno" in globalThis) void functions().close(fd);
  else fileSystem().close(fd, () => {});
}

/** Reads or writes once. Resolves to a negative number if the call has failed. */
async function transfer(way: "read" | "write", fd: number, bytes: Uint8Array, offset: number): Promise<number> {
  // In Deno, `node:fs` does not take descriptors of the system; elsewhere, native calls block.
  if ("Deno" in globalThis) {
    const { pread, pwrite } = functions();
    const call = way === "read" ? pread : pwrite;
    return Number(await call(fd, bytes, BigInt(bytes.length), BigInt(offset)));
  }
  return await new Promise((resolve) => {
    fileSystem()[way](fd, bytes, 0, bytes.length, offset, (error, count) => {
      resolve(error === null || error === undefined ? count : -1);
    });
  });
}

function functions(): NativeFunctions<typeof symbols> {
  return libc ??= dlopen("libc.so.6", symbols).symbols as NativeFunctions<typeof symbols>;
}

function fileSystem(): FileSystem {
  const { process } = globalThis as unknown as {
    process: { getBuiltinModule(name: "node:fs"): FileSystem };
  };
  return process.getBuiltinModule("node:fs");
}
