/**
 * The text of a module's image that is PTX, as a string or as bytes; undefined for a cubin or a fatbin. Throws a
 * `TypeError` for what is no image.
 */
export function ptxText(image: string | Uint8Array): string | undefined {
  if (typeof image === "string") {
    if (isPath(image)) throw new TypeError(`Cannot load "${image}" as a module: give the text of the PTX, not a path`);
    return image;
  }
  // A Uint8Array of another realm is one too.
  if (Object.prototype.toString.call(image) !== "[object Uint8Array]") {
    const given = Object.prototype.toString.call(image).slice("[object ".length, -1);
    throw new TypeError(
      `Cannot load a module from what is of type ${given}: give PTX as text, or the bytes of an image as a Uint8Array`,
    );
  }
  const text = image.at(-1) === 0 ? image.subarray(0, -1) : image;
  return text.includes(0) ? undefined : new TextDecoder().decode(text);
}

/** Whether it names a file of kernels: no PTX ends like that. */
function isPath(text: string): boolean {
  return /^[^\n]+\.(ptx|cubin|fatbin)$/i.test(text);
}

/** Whether text is PTX: it begins with its version, after space and comments. */
export function isPtx(text: string): boolean {
  // One at a time: a repeated group would overflow the stack on thousands of comments.
  const spaceOrComment = /[ \t\r\n\f\v]+|\/\/[^\n]*|\/\*[^]*?\*\//y;
  let begin = 0;
  while (spaceOrComment.test(text)) begin = spaceOrComment.lastIndex;
  return text.startsWith(".version", begin);
}
