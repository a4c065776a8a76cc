/**
 * Names as people write them: NVIDIA's compilers write the mangled names of nested types.
 *
 * @module
 */

/** `Outer::Inner` for `_ZN5Outer5InnerE`. A name that is not mangled, or of which too much is, stays. */
export function readableName(name: string): string {
  if (!name.startsWith("_Z")) {
    // A lambda's line is a line of the preprocessed source, which the user has not seen.
    return name.replaceAll(/(?:struct )?lambda \[\] type at line \d+, col\. \d+/g, "lambda").replaceAll(
      /,(?=\S)/g,
      ", ",
    )
      .replaceAll(/ (?=[*&>])/g, "");
  }
  if (/^_ZZ?.*Ul.*_E/.test(name)) return "lambda";
  const parts: string[] = [];
  let rest = name.replace(/^_ZN/, "");
  while (true) {
    const digits = /^\d+/.exec(rest)?.[0];
    if (digits === undefined) break;
    const begin = digits.length;
    parts.push(rest.slice(begin, begin + Number(digits)));
    rest = rest.slice(begin + Number(digits));
  }
  // Unnamed types.
  const isUnnamed = /^Ut\d*_E?$/.test(rest);
  if (isUnnamed) return [...parts.filter((part) => !part.startsWith("__C")), "unnamed"].join("::");
  return rest === "E" && parts.length > 0 ? parts.join("::") : name;
}
