import type { CompiledKernel } from "../../compiler/compile.ts";

/** What is known of the shared memory of a kernel. */
export type SharedVariables = Pick<CompiledKernel, "variables" | "sharedBytes">;

/** Names bytes of a block's shared memory: `values[16] (bytes 64 to 67 of shared memory)`. */
export function nameShared({ variables, sharedBytes }: SharedVariables, begin: number, bytes: number): string {
  const place = `${bytesFrom(begin, bytes)} of shared memory`;
  if (begin >= sharedBytes) return `${bytesFrom(begin - sharedBytes, bytes)} of dynamic shared memory`;
  const variable = variables.find(({ space, offset, byteLength }) =>
    space === "shared" && begin >= offset && begin + bytes <= offset + byteLength
  );
  if (variable === undefined) return place;
  const { offset, elementBytes } = variable;
  const name = readable(variable.name);
  const within = begin - offset;
  if (elementBytes === undefined) return `${name} (${place})`;
  // Compilers declare arrays of any type as bytes: the size of the elements is not known then.
  return elementBytes === bytes && within % bytes === 0
    ? `${name}[${within / bytes}] (${place})`
    : `${bytesFrom(within, bytes)} of ${name} (${place})`;
}

function bytesFrom(begin: number, bytes: number): string {
  return bytes === 1 ? `byte ${begin}` : `bytes ${begin} to ${begin + bytes - 1}`;
}

/** `tile` for `_ZZ6reducePfE4tile`, a static variable of a function in C++. Other names as they are. */
function readable(name: string): string {
  if (!name.startsWith("_ZZ")) return name;
  for (const { 1: digits, index } of name.matchAll(/(?<=E)(\d+)/g)) {
    const begin = index + digits!.length;
    const rest = name.slice(begin + Number(digits));
    if (begin + Number(digits) <= name.length && /^(?:_\d+|__\d+_)?$/.test(rest)) {
      return name.slice(begin, begin + Number(digits));
    }
  }
  return name;
}
