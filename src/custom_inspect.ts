/**
 * How objects print themselves.
 *
 * @module
 */

/** The name of the method that Deno, Bun and Node print an object by. */
export const customInspect: unique symbol = Symbol.for("nodejs.util.inspect.custom");
