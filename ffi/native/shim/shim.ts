/**
 * The shim: a small C library for calls to Linux and CUDA that plain FFI cannot express. Also Linux's error numbers,
 * which the shim returns, and C strings. The package embeds the library. It is loaded from memory on first use; nothing
 * is written to disk.
 *
 * @module
 */
import * as aarch64 from "./aarch64.ts";
import * as x86_64 from "./x86_64.ts";
import {
  addressOf,
  dlopen,
  ffiRefusal,
  foreignBuffer,
  type NativeFunction,
  type NativeFunctions,
  platform,
} from "../host.ts";

const symbols = {
  poolpass_listen: {
    parameters: [
      "buffer", // const char *path
      "buffer", // const char *temporary
      "u32", // uint32_t mode
      "u32", // uint32_t passes_rights
      "buffer", // struct file_identity *identity
    ],
    result: "i32",
  },
  poolpass_probe: {
    parameters: ["buffer", /* const char *path */ "buffer" /* struct file_identity *identity */],
    result: "i32",
  },
  poolpass_remove: {
    parameters: [
      "buffer", // const char *path
      "buffer", // const char *aside
      "buffer", // const struct file_identity *identity
      "u32", // uint32_t own
    ],
    result: "i32",
  },
  poolpass_connect: { parameters: ["buffer" /* const char *path */], result: "i32" },
  poolpass_accept: { parameters: ["i32" /* int fd */], result: "i32" },
  poolpass_peer: { parameters: ["i32", /* int fd */ "buffer" /* struct socket_peer *peer */], result: "i32" },
  poolpass_send: {
    parameters: [
      "i32", // int fd
      "buffer", // const void *bytes
      "u64", // uint64_t length
      "buffer", // const int *fds
      "u32", // uint32_t count
    ],
    result: "i32",
  },
  poolpass_receive: {
    parameters: [
      "i32", // int fd
      "buffer", // void *bytes
      "u64", // uint64_t length
      "buffer", // int *fds
      "u32", // uint32_t capacity
      "buffer", // struct received *out
    ],
    result: "i32",
  },
  poolpass_poll: {
    parameters: ["buffer", /* struct pollfd *interests */ "u32", /* uint32_t count */ "i32" /* int32_t milliseconds */],
    result: "i32",
  },
  poolpass_park: {
    parameters: ["buffer", /* const struct pollfd *interests */ "u32" /* uint32_t count */],
    result: "i32",
    nonblocking: true,
  },
  poolpass_eventfd: { parameters: [], result: "i32" },
  poolpass_eventfd_set: { parameters: ["i32" /* int fd */], result: "i32" },
  poolpass_eventfd_clear: { parameters: ["i32" /* int fd */], result: "i32" },
  poolpass_read_link: {
    parameters: ["i32", /* int fd */ "buffer", /* char *out */ "u64" /* uint64_t size */],
    result: "i32",
  },
  poolpass_close: { parameters: ["i32" /* int fd */], result: "i32" },
  poolpass_duplicate: { parameters: ["i32" /* int fd */], result: "i32" },
  poolpass_pread: {
    parameters: [
      "i32", // int fd
      "buffer", // void *bytes
      "u64", // uint64_t length
      "u64", // uint64_t offset
    ],
    result: "i32",
  },
  poolpass_pwrite: {
    parameters: [
      "i32", // int fd
      "buffer", // const void *bytes
      "u64", // uint64_t length
      "u64", // uint64_t offset
    ],
    result: "i32",
  },
  poolpass_status: { parameters: ["i32", /* int fd */ "buffer" /* struct descriptor_status *out */], result: "i32" },
  poolpass_memfd: { parameters: ["buffer", /* const char *name */ "u64" /* uint64_t size */], result: "i32" },
  poolpass_grow: { parameters: ["i32", /* int fd */ "u64" /* uint64_t size */], result: "i32" },
  poolpass_punch: {
    parameters: ["i32", /* int fd */ "u64", /* uint64_t offset */ "u64" /* uint64_t length */],
    result: "i32",
  },
  poolpass_map: {
    parameters: [
      "buffer", // unsigned char *base
      "u64", // uint64_t at
      "u64", // uint64_t length
      "i32", // int fd
      "u64", // uint64_t offset
    ],
    result: "i32",
  },
  poolpass_unmap: {
    parameters: ["buffer", /* unsigned char *base */ "u64", /* uint64_t at */ "u64" /* uint64_t length */],
    result: "i32",
  },
  poolpass_getpid: { parameters: [], result: "i32" },
  poolpass_geteuid: { parameters: [], result: "u32" },
  poolpass_ipc_open_mem_handle: {
    parameters: [
      "u64", // cudaError_t (*function)(void **, cudaIpcMemHandle_t, unsigned int)
      "buffer", // void **out
      "buffer", // const struct bytes64 *handle
      "u32", // uint32_t flags
    ],
    result: "i32",
  },
  poolpass_ipc_open_event_handle: {
    parameters: [
      "u64", // cudaError_t (*function)(cudaEvent_t *, cudaIpcEventHandle_t)
      "buffer", // void *out
      "buffer", // const struct bytes64 *handle
    ],
    result: "i32",
  },
  poolpass_close_aside: { parameters: ["i32" /* int fd */], result: "i32" },
  poolpass_is_closing_stuck: { parameters: [], result: "i32" },
  poolpass_close_socket: { parameters: ["i32" /* int fd */], result: "i32" },
  poolpass_serve: { parameters: ["i32", /* int listener */ "i32" /* int fd */], result: "i32" },
  poolpass_stop_serving: { parameters: ["i32" /* int listener */], result: "i32" },
  poolpass_judge: { parameters: ["i32", /* int fd */ "buffer" /* struct judgement *out */], result: "i32" },
  poolpass_open: { parameters: ["buffer", /* const char *path */ "u32" /* uint32_t writable */], result: "i32" },
  poolpass_open_path: { parameters: ["buffer", /* const char *path */ "u32" /* uint32_t follow */], result: "i32" },
  poolpass_lock: {
    parameters: [
      "i32", // int fd
      "u64", // uint64_t begin
      "u64", // uint64_t length
      "u32", // uint32_t locked
    ],
    result: "i32",
  },
  poolpass_is_locked: {
    parameters: ["i32", /* int fd */ "u64", /* uint64_t begin */ "u64" /* uint64_t length */],
    result: "i32",
  },
  poolpass_pidfd_open: { parameters: ["i32" /* int pid */], result: "i32" },
  poolpass_pidfd_inode: { parameters: ["i32", /* int pidfd */ "buffer" /* uint64_t *inode */], result: "i32" },
  poolpass_connect_datagram: { parameters: ["buffer" /* const char *path */], result: "i32" },
  poolpass_transfer: {
    parameters: [
      "buffer", // const struct plan *plan
      "buffer", // const struct piece *pieces
      "buffer", // uint64_t *out
    ],
    result: "i32",
  },
  poolpass_transfer_end: {
    parameters: ["u64", /* uint64_t address */ "buffer" /* uint64_t *failed_at */],
    result: "i32",
  },
} as const;

/**
 * The shim's functions. Each returns a number of at least 0, or `-errno`; the two functions that call CUDA return
 * CUDA's error number.
 */
export type Shim = NativeFunctions<typeof symbols>;

/**
 * The embedded libraries by processor, under Deno's names (`x86_64`, `aarch64`) and those of Bun and Node (`x64`,
 * `arm64`).
 */
const libraries: Readonly<Record<string, { readonly library: string; readonly digest: number }>> = {
  x86_64,
  x64: x86_64,
  aarch64,
  arm64: aarch64,
};

const closeOnExec = 1;
const notExecutable = 8;
/** The fcntl command `F_DUPFD_CLOEXEC`. */
const duplicateCloseOnExec = 1030;
/**
 * The lowest number for the descriptor from which the shim is loaded, so that most threads of a process use the same
 * number. Linux allocates room for 64 descriptors when a process starts. It adds room for higher numbers only after all
 * processors have left their current system calls, which takes 12 milliseconds.
 */
const highDescriptor = 60;

let loaded: Shim | undefined;

/** Returns why the shim cannot be used here, or undefined if it can. It needs Linux on x86-64 or aarch64, and FFI. */
export function shimRefusal(): string | undefined {
  const { os, processor } = platform();
  if (os !== "linux") return `it needs Linux, and this is ${os}`;
  if (libraries[processor] === undefined) return `it needs an x86-64 or aarch64 processor, and this is ${processor}`;
  return ffiRefusal();
}

/**
 * Returns the shim's functions. The first call loads the shim.
 *
 * @throws {Error} If the shim cannot be used here; `shimRefusal()` returns the reason beforehand
 */
export function shim(): Shim {
  loaded ??= load();
  return loaded;
}

/**
 * Returns the result of a function of the shim, or throws if it is an error.
 *
 * @param call the name of the call, for the error's message
 * @throws {SystemError} If `result` is negative
 */
export function unwrap(result: number, call: string): number {
  if (result < 0) throw new SystemError(-result, call);
  return result;
}

/** Encodes a string as a C string: UTF-8, with a NUL at the end. */
export function cString(string: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${string}\0`);
}

function load(): Shim {
  const refusal = shimRefusal();
  if (refusal !== undefined) throw new Error(`Cannot load poolpass's C library: ${refusal}`);
  const { library, digest } = libraries[platform().processor]!;
  const image = Uint8Array.fromBase64(library);
  const libc = dlopen("libc.so.6", {
    memfd_create: { parameters: ["buffer", /* const char *name */ "u32" /* unsigned int flags */], result: "i32" },
    close: { parameters: ["i32" /* int fd */], result: "i32" },
    write: { parameters: ["i32", /* int fd */ "buffer", /* const void *buf */ "u64" /* size_t n */], result: "i64" },
    fcntl: { parameters: ["i32", /* int fd */ "i32", /* int op */ "i32" /* int arg */], result: "i32" },
  });
  const { memfd_create: memfdCreate, write, close, fcntl } = libc.symbols;
  const name = cString("poolpass-shim");
  // Linux before 6.3 does not support the flag `notExecutable`. Later kernels may be configured to require it.
  let fd = memfdCreate!(name, closeOnExec | notExecutable);
  if (fd < 0) fd = memfdCreate!(name, closeOnExec);
  let loadedFrom = fd;
  try {
    if (fd < 0) {
      throw new Error("Cannot load poolpass's C library: this system cannot create a memory file (memfd_create)");
    }
    if (write!(fd, image, BigInt(image.length)) !== BigInt(image.length)) {
      throw new Error("Cannot load poolpass's C library: there is no memory left for it");
    }
    const high = fcntl!(fd, duplicateCloseOnExec, highDescriptor);
    if (high >= 0) loadedFrom = high;
    return dlopen(pathOf(loadedFrom, digest), symbols, { lazy: true }).symbols as Shim;
  } finally {
    if (loadedFrom !== fd) close!(loadedFrom);
    if (fd >= 0) close!(fd);
    libc.close();
  }
}

/**
 * Returns a path for a descriptor. The spelling of the path depends on the library's digest. The dynamic linker loads
 * each path only once. Threads of a process that use the same descriptor number share one library. Another
 * version of this module uses that number too, but spells the path differently, and so gets its own library.
 */
function pathOf(fd: number, digest: number): string {
  const spelling = Array.from({ length: 32 }, (_, bit) => (digest >>> bit & 1) === 1 ? "./" : "/").join("");
  return `/proc/self/fd/${spelling}${fd}`;
}

/** Linux's error numbers, which are the same on x86-64 and aarch64. */
export const errno = {
  EPERM: 1,
  ENOENT: 2,
  ESRCH: 3,
  EINTR: 4,
  EIO: 5,
  ENXIO: 6,
  E2BIG: 7,
  EBADF: 9,
  EAGAIN: 11,
  ENOMEM: 12,
  EACCES: 13,
  EFAULT: 14,
  EBUSY: 16,
  EEXIST: 17,
  EXDEV: 18,
  ENODEV: 19,
  ENOTDIR: 20,
  EISDIR: 21,
  EINVAL: 22,
  ENFILE: 23,
  EMFILE: 24,
  ETXTBSY: 26,
  EFBIG: 27,
  ENOSPC: 28,
  ESPIPE: 29,
  EROFS: 30,
  EPIPE: 32,
  ERANGE: 34,
  ENAMETOOLONG: 36,
  ENOSYS: 38,
  ELOOP: 40,
  ENODATA: 61,
  EPROTO: 71,
  EOVERFLOW: 75,
  ENOTSOCK: 88,
  EMSGSIZE: 90,
  EPROTOTYPE: 91,
  ENOPROTOOPT: 92,
  EOPNOTSUPP: 95,
  EAFNOSUPPORT: 97,
  EADDRINUSE: 98,
  EADDRNOTAVAIL: 99,
  ECONNABORTED: 103,
  ECONNRESET: 104,
  ENOBUFS: 105,
  EISCONN: 106,
  ENOTCONN: 107,
  ETOOMANYREFS: 109,
  ETIMEDOUT: 110,
  ECONNREFUSED: 111,
  EINPROGRESS: 115,
} as const;

let namesByNumber: ReadonlyMap<number, string> | undefined;

/** Returns the name of an error number: `"EADDRINUSE"` for 98. */
export function errnoName(number: number): string {
  namesByNumber ??= new Map(Object.entries(errno).map(([name, number]) => [number, name]));
  return namesByNumber.get(number) ?? `errno ${number}`;
}

/** The error of a failed system call. */
export class SystemError extends Error {
  /** Always `"SystemError"`. */
  declare readonly name: "SystemError";
  /** The error's name, such as `"EADDRINUSE"`. */
  readonly code: string;
  /** The error's number, positive, such as 98. */
  readonly errno: number;

  static {
    Object.defineProperty(this.prototype, "name", { value: "SystemError", configurable: true, writable: true });
  }

  /**
   * @param number the error's number, positive
   * @param call the name of the call, for the message
   */
  constructor(number: number, call: string) {
    const code = errnoName(number);
    super(`${call} failed: ${code}`);
    this.code = code;
    this.errno = number;
  }
}

const stringSymbols = { strlen: { parameters: ["u64" /* const char *s */], result: "u64" } } as const;
let strlen: NativeFunction<typeof stringSymbols.strlen> | undefined;

/** Returns the NUL-terminated string at an address. */
export function stringAt(address: bigint): string {
  strlen ??= dlopen("libc.so.6", stringSymbols).symbols.strlen!;
  return new TextDecoder().decode(foreignBuffer(address, Number(strlen(address))));
}

/**
 * Returns the addresses of C strings as `const char **`, followed in the same memory by the strings, so that the array
 * keeps the strings alive. Null if there are none.
 */
export function cStringArray(strings: readonly string[]): Uint8Array<ArrayBuffer> | null {
  if (strings.length === 0) return null;
  const encoded = strings.map((string) => new TextEncoder().encode(`${string}\0`));
  const pointerBytes = encoded.length * BigUint64Array.BYTES_PER_ELEMENT;
  const bytes = new Uint8Array(new ArrayBuffer(encoded.reduce((sum, { length }) => sum + length, pointerBytes)));
  const pointers = new BigUint64Array(bytes.buffer, 0, encoded.length);
  const base = addressOf(bytes);
  let end = pointerBytes;
  encoded.forEach((string, index) => {
    bytes.set(string, end);
    pointers[index] = base + BigInt(end);
    end += string.length;
  });
  return bytes;
}
