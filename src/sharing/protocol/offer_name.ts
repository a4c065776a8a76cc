import { escapeControls } from "../../support/printing.ts";
import { whatIs } from "../../support/validation.ts";
import { maximumNameByteLength } from "./messages.ts";

const encoder = new TextEncoder();
/** The number of characters that an error quotes of an invalid name. */
const quotedLength = 40;

/**
 * Checks the name of an offer.
 *
 * @throws {TypeError} If it is not a string
 * @throws {RangeError} If its length is not 1 to 255 bytes of UTF-8, or if it contains a NUL or a lone surrogate
 */
export function checkOfferName(name: string): void {
  if (typeof name !== "string") {
    throw new TypeError(`Cannot use ${whatIs(name)} as the name of an offer: it must be a string`);
  }
  if (isPlain(name)) return;
  const { length } = encoder.encode(name);
  if (length === 0 || length > maximumNameByteLength || name.includes("\0") || !name.isWellFormed()) {
    const quoted = JSON.stringify(name.length > quotedLength ? `${name.slice(0, quotedLength)}...` : name);
    throw new RangeError(
      `Cannot use ${
        escapeControls(quoted)
      } as the name of an offer: it has ${length} bytes of UTF-8; a name has 1 to ` +
        `${maximumNameByteLength} bytes, no NUL and no lone surrogate`,
    );
  }
}

/**
 * Whether a name consists of ASCII characters only and is therefore valid. Most names do, and this loop costs less than
 * an encoder.
 */
function isPlain(name: string): boolean {
  if (name.length === 0 || name.length > maximumNameByteLength) return false;
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i);
    if (code === 0 || code > 0x7f) return false;
  }
  return true;
}
