/**
 * The PTX text of a module's image, given as a string or as bytes. Undefined for a cubin or a fatbin. Throws a
 * `TypeError` if the argument is not an image.
 */
export function ptxText(image: string | Uint8Array): string | undefined {
  if (typeof image === "string") {
    if (isPath(image)) throw new TypeError(`Cannot load "${image}" as a module: pass the text of the PTX, not a path`);
    return image;
  }
  // Also accepts a Uint8Array of another realm.
  if (Object.prototype.toString.call(image) !== "[object Uint8Array]") {
    const given = Object.prototype.toString.call(image).slice("[object ".length, -1);
    throw new TypeError(
      `Cannot load a module from a value of type ${given}: pass PTX text, or the bytes of an image as a Uint8Array`,
    );
  }
  const text = image.at(-1) === 0 ? image.subarray(0, -1) : image;
  return text.includes(0) ? undefined : new TextDecoder().decode(text);
}

/**
 * The names of the variables that PTX declares for a whole module, to suggest one for a mistyped name. Finds those that
 * are declared at the start of a line, as compilers do, so that a module loads no slower for it.
 */
export function ptxVariableNames(text: string): string[] {
  const declaration = /^[ \t]*(?:\.(?:visible|extern|weak|common)[ \t]+)?\.(?:global|const)\b([^\n;={[]*)[[=;]/gm;
  // The name is the last word, after the alignment, attributes and the type.
  return Array.from(text.matchAll(declaration), (match) => match[1]!.trimEnd().split(/[ \t)]/).at(-1)!);
}

/** Whether the text is the path of a file with kernels. PTX text never ends like one. */
function isPath(text: string): boolean {
  return /^[^\n]+\.(ptx|cubin|fatbin)$/i.test(text);
}

/** Whether text is PTX: it begins with a version, after space and comments. */
export function isPtx(text: string): boolean {
  // Matches one item at a time, because a repeated group would overflow the stack on thousands of comments.
  const spaceOrComment = /[ \t\r\n\f\v]+|\/\/[^\n]*|\/\*[^]*?\*\//y;
  let begin = 0;
  while (spaceOrComment.test(text)) begin = spaceOrComment.lastIndex;
  return text.startsWith(".version", begin);
}
