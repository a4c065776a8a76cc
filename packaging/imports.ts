/**
 * Translates imports of this repository's modules into imports of the package.
 *
 * @module
 */

/** The modules beside `mod.ts` that export a part of its names. */
export const parts = ["sharing", "store", "collectives", "operators"] as const;

/** The modules beside `mod.ts` that export names of their own, which a program loads only if it imports them. */
export const fileModules = ["npy", "safetensors", "weights"] as const;
/** The module that starts CUDA before the others are loaded. */
export const firstModule = "initialize";
/** All modules that are exported besides `mod.ts`, the kernels and the program. */
export const modulesBeside: readonly string[] = [...parts, ...fileModules, firstModule];

/**
 * The specifiers by which users import the package: of its main module, and of the folder of its kernels. `part` is the
 * specifier of one of `modulesBeside`; by default, that of the main module, a slash and its name.
 */
export interface Source {
  readonly main: string;
  readonly kernels: string;
  readonly part?: (name: string) => string;
}

const partImport = new RegExp(`(?<=\\bfrom ")(?:\\.\\.?/)+(${modulesBeside.join("|")})\\.ts(?=")`, "g");

/** Replaces relative imports of `mod.ts`, its parts and kernels in a text by the specifiers that users write. */
export function forUsers(
  text: string,
  { main, kernels, part = (name) => `${main}/${name}` }: Source = { main: "poolpass", kernels: "poolpass/kernels" },
): string {
  return text
    .replaceAll(/(?<=\bfrom ")(?:\.\.?\/)+mod\.ts(?=")/g, main)
    .replaceAll(partImport, (_, name) => part(name))
    .replaceAll(/(?<=\bfrom ")(?:\.\.?\/)+kernels\/(\w+)\.ts(?=")/g, `${kernels}/$1.js`);
}
