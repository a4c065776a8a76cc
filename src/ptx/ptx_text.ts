/** The text of a module's image that is PTX, as a string or as bytes; undefined for a cubin or a fatbin. */
export function ptxText(image: string | Uint8Array): string | undefined {
  if (typeof image === "string") return image;
  const text = image.at(-1) === 0 ? image.subarray(0, -1) : image;
  return text.includes(0) ? undefined : new TextDecoder().decode(text);
}

/** Whether text is PTX: it begins with its version, after space and comments. */
export function isPtx(text: string): boolean {
  // One at a time: a repeated group would overflow the stack on thousands of comments.
  const spaceOrComment = /[ \t\r\n\f\v]+|\/\/[^\n]*|\/\*[^]*?\*\//y;
  let begin = 0;
  while (spaceOrComment.test(text)) begin = spaceOrComment.lastIndex;
  return text.startsWith(".version", begin);
}
