/** The text of a module's image that is PTX, as a string or as bytes; undefined for a cubin or a fatbin. */
export function ptxText(image: string | Uint8Array): string | undefined {
  if (typeof image === "string") return image;
  const text = image.at(-1) === 0 ? image.subarray(0, -1) : image;
  return text.includes(0) ? undefined : new TextDecoder().decode(text);
}

/** Whether text is PTX: it begins with its version, after space and comments. */
export function isPtx(text: string): boolean {
  const [before] = /^(?:[ \t\r\n\f\v]+|\/\/[^\n]*|\/\*[^]*?\*\/)*/.exec(text)!;
  return text.startsWith(".version", before.length);
}
