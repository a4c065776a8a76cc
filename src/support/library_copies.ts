/**
 * What copies of the library on one thread have in common: a program may load two versions of it, and CUDA and the addresses
 * are the thread's.
 *
 * @module
 */

/** What a name stands for in all copies on this thread; who asks first makes it. */
export function sharedAmongCopies<T>(name: string, make: () => T): T {
  return ((globalThis as unknown as Record<symbol, T>)[Symbol.for(`poolpass.${name}`)] ??= make());
}
