/**
 * How objects print themselves in a REPL and in `console.log`: `MemoryPool { device 0, 3 buffers, ... }`, that is where it
 * is, what it is, how large, and in which state, in this order.
 *
 * @module
 */

/** As many names as are printed of a longer list. */
const maxNames = 8;

/**
 * Sets what Deno, Bun and Node print for a class's objects, and the class's name.
 *
 * @example
 * ```ts
 * class Point {
 *   #x = 1;
 *   static {
 *     printAs(this, "Point", (point) => `Point { x: ${point.#x} }`);
 *   }
 * }
 * ```
 */
export function printAs<T>(constructor: { readonly prototype: T }, name: string, text: (object: T) => string): void {
  nameClass(constructor, name);
  printObjectAs(constructor.prototype, (object) => {
    try {
      return text(object);
    } catch {
      // It has none of the private fields: a prototype, or what is made with an object as its prototype, or a Proxy.
      return `${name} { a prototype or a Proxy }`;
    }
  });
}

/** Gives a class its name, in programs too whose bundler has given it another. */
export function nameClass(constructor: object, name: string): void {
  // V8 takes 7 ns more for each `instanceof` once a class's name was defined anew.
  if ((constructor as { name?: unknown }).name === name) return;
  Object.defineProperty(constructor, "name", { value: name, configurable: true });
}

/** Sets what Deno, Bun and Node print for one object. */
export function printObjectAs<T>(object: T, text: (object: T) => string): void {
  Object.defineProperty(object, Symbol.for("nodejs.util.inspect.custom"), {
    value(this: T): string {
      return text(this);
    },
  });
}

/** "device 0", or "host" for what is in host memory. */
export function placeOf(device: { readonly ordinal: number } | undefined): string {
  return device === undefined ? "host" : `device ${device.ordinal}`;
}

/** "1 buffer", "2 buffers". */
export function countOf(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** The first of some names, and how many more there are. */
export function listOf(names: readonly string[]): string {
  const more = names.length - maxNames;
  return more > 0 ? `${names.slice(0, maxNames).join(", ")} and ${more} more` : names.join(", ");
}

/** What somebody says who may throw: else the error of the driver, which is as good to know. To print never fails. */
export function stateOf(ask: () => string, otherwise: string = "not known"): string {
  try {
    return ask();
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : otherwise;
  }
}
