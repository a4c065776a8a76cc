/**
 * What a program passes to `CudaDevice.link`.
 *
 * @module
 */
import type { LinkedImage } from "../../driver.ts";
import { checkImage } from "../../ptx/image_mistakes.ts";
import { checkOptions, type KnownOptions, whatIs } from "../../support/validation.ts";

/** An image to link, with a name. */
export interface LinkImage {
  /** What errors and the linker call the image by, such as the name of its file. */
  name: string;
  /** PTX as a string, or the bytes of PTX, a cubin, a fatbin, a host's object or library, or LTO IR. */
  image: string | Uint8Array;
}

const known: KnownOptions<LinkImage> = {
  action: "link an image",
  names: { name: true, image: true },
  required: "PTX text, the bytes of an image as a Uint8Array, or { name, image }",
};

/** Checks images, and names those that have no name. */
export function linkedImages(images: readonly (string | Uint8Array | LinkImage)[]): LinkedImage[] {
  if (!Array.isArray(images)) {
    throw new TypeError(`Cannot link ${whatIs(images)}: give an array of images, such as [ptx, otherPtx]`);
  }
  if (images.length === 0) throw new RangeError("Cannot link no images: give at least one");
  return Array.from(images, (given, index) => {
    const isImage = typeof given === "string" || Object.prototype.toString.call(given) === "[object Uint8Array]";
    if (!isImage) checkNamed(given, index);
    const { name, image } = isImage ? { name: `image ${index}`, image: given } : given;
    try {
      checkImage(image, { isLinked: true });
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      const { message } = error;
      throw new TypeError(`Cannot link ${name}: ${message[0]!.toLowerCase()}${message.slice(1)}`);
    }
    return { name, image };
  });
}

function checkNamed(given: LinkImage, index: number): void {
  const isObject = typeof given === "object" && given !== null && !Array.isArray(given);
  if (!isObject || !("image" in given)) {
    throw new TypeError(`Cannot link ${whatIs(given)} as image ${index}: give ${known.required}`);
  }
  checkOptions(given, known);
  if (typeof given.name !== "string" || given.name === "" || given.name.includes("\0")) {
    const name = typeof given.name === "string" ? JSON.stringify(given.name) : whatIs(given.name);
    throw new TypeError(`Cannot use ${name} as the name of image ${index}: it must be a string that is not empty`);
  }
}
