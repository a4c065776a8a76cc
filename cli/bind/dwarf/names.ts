/**
 * Converts names in debug information to C++ names. NVIDIA's compilers mangle the names of nested types.
 *
 * @module
 */

/**
 * Returns the C++ name of a type, such as `Outer::Inner` for `_ZN5Outer5InnerE`. Returns mangled names that are more
 * complex unchanged.
 */
export function readableName(name: string): string {
  if (!name.startsWith("_Z")) {
    // Omit the line number from the name of a lambda, because the number refers to the preprocessed source.
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
  // An unnamed type is mangled as `Ut_`.
  const isUnnamed = /^Ut\d*_E?$/.test(rest);
  if (isUnnamed) return [...parts.filter((part) => !part.startsWith("__C")), "unnamed"].join("::");
  return rest === "E" && parts.length > 0 ? parts.join("::") : name;
}
