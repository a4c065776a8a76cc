/**
 * Errors of `structuredClone` and `postMessage` for objects that cannot be used by another thread.
 *
 * @module
 */
import { startStackAbove } from "./printing.ts";

/**
 * Returns the value of a property with which each object of a class refuses to be cloned. Without it, a clone would be
 * a plain object without methods, or the runtime's error would name one of the object's properties.
 *
 * Structured cloning calls no method of the object or its class, but it reads the properties of nested objects.
 * Therefore, all objects of a class have a property with the same value: an object with a getter that throws. The
 * property must be the first one of each object; otherwise, cloning might fail earlier, at a different property, with a
 * different message.
 *
 * @param what the objects, with an article: `"a CudaStream"`
 * @param advice what to do instead
 */
export function cloneRefusal(what: string, advice: string): object {
  function get(): never {
    const message = `Cannot clone ${what} or send it to a Worker: ${advice}`;
    throw startStackAbove(new DOMException(message, "DataCloneError"), get);
  }
  return Object.defineProperty({}, "refusal", { get, enumerable: true });
}

/** Advice for objects that each Worker creates for itself. */
export const openInWorker = "each Worker calls open() and creates objects of its own";
/** Advice for objects through which processes share memory. */
export const shareOrOpen = "each Worker calls open(), and shares memory through an Exporter, as other processes do";
