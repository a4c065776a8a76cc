/**
 * Linux's error numbers and their names.
 *
 * @module
 */

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

const namesByNumber: ReadonlyMap<number, string> = new Map(
  Object.entries(errno).map(([name, number]) => [number, name]),
);

/** The name of an error number: `"EADDRINUSE"` for 98. */
export function errnoName(number: number): string {
  return namesByNumber.get(number) ?? `errno ${number}`;
}

/** A system call failed. */
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
   * @param call what was called, for the message
   */
  constructor(number: number, call: string) {
    const code = errnoName(number);
    super(`${call} failed: ${code}`);
    this.code = code;
    this.errno = number;
  }
}
