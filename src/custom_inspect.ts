/**
 * How objects print themselves in a REPL and in `console.log`.
 *
 * @module
 */

/**
 * Sets what Deno, Bun and Node print for a class's objects.
 *
 * @example
 * ```ts
 * class Point {
 *   #x = 1;
 *   static {
 *     printAs(this, (point) => `Point { x: ${point.#x} }`);
 *   }
 * }
 * ```
 */
export function printAs<T>(constructor: { readonly prototype: T }, text: (object: T) => string): void {
  Object.defineProperty(constructor.prototype, Symbol.for("nodejs.util.inspect.custom"), {
    value(this: T): string {
      return text(this);
    },
  });
}
