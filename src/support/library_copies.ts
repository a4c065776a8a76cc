/**
 * State that all copies of the library on one thread share. A program may load two versions of poolpass, but a thread
 * has only one current CUDA device, and software devices must not use the same addresses.
 *
 * @module
 */

/** The value that all copies on this thread share under `name`. The first copy to ask for it creates it. */
export function sharedAmongCopies<T>(name: string, make: () => T): T {
  return ((globalThis as unknown as Record<symbol, T>)[Symbol.for(`poolpass.${name}`)] ??= make());
}
