const encoder = new TextEncoder();
/** The length up to which a loop over a string is faster than the encoder. */
const shortLength = 64;

/** The length of a well-formed string in bytes of UTF-8. */
export function utf8ByteLength(text: string): number {
  if (text.length > shortLength) return encoder.encode(text).length;
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7f) return encoder.encode(text).length;
  return text.length;
}

/** The number of bytes that count toward `maximumMetadata`: an offer's name and metadata in UTF-8. */
export function textByteLength({ name, metadata }: { readonly name: string; readonly metadata: string }): number {
  return utf8ByteLength(name) + utf8ByteLength(metadata);
}
