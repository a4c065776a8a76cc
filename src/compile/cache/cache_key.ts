/**
 * What tells one compilation from another.
 *
 * @module
 */
import { sha256 } from "../../support/sha256.ts";
import type { Compiler, CompilerInput } from "../compiler.ts";
import { formatVersion } from "./cache_entry.ts";

/**
 * The key of a program and a compiler. Undefined if the result may depend on what the key cannot know: on files other
 * than those that came with the compiler, or on the time.
 */
export function cacheKey(compiler: Pick<Compiler, "name" | "build">, input: CompilerInput): string | undefined {
  if (compiler.build === undefined || !isSelfContained(input)) return undefined;
  const { headers, defines, ...rest } = input;
  const described = JSON.stringify([
    formatVersion,
    compiler.name,
    compiler.build,
    // In an order that does not depend on how the caller has written the object.
    Object.entries(rest).sort(([a], [b]) => a < b ? -1 : 1),
    [...headers].sort(([a], [b]) => a < b ? -1 : 1),
    [...defines],
  ]);
  return sha256(new TextEncoder().encode(described)).toHex();
}

/** Flags that have the compiler read or write other files, or that hand on flags to other programs. */
const flagsOfFiles =
  /^@|^-[IiLBM]\b|^-[IL]|^-X(?!ptxas)|^-+(?:i|optf|o$|time|trace|keep|save|dep|comp|cc)|include|file|path|dir\b|config|sysroot|plugin|pch/;

function isSelfContained({ source, headers, includePaths, defines, flags }: CompilerInput): boolean {
  if (includePaths.length > 0 || flags.some((flag) => flagsOfFiles.test(flag))) return false;
  return [source, ...headers.values(), ...defines.values()].every((text) => {
    const joined = text.replaceAll(/\\\r?\n/g, "");
    return !/__(?:DATE|TIME|TIMESTAMP)__/.test(joined) &&
      Array.from(joined.matchAll(inclusions)).every(({ groups }) => {
        const { directive, operand = "" } = groups!;
        if (directive !== "include" && directive !== "__has_include") return false;
        const [, quoted, angled] = /^(?:"([^"\n]*)"|<([^>\n]*)>)/.exec(operand) ?? [];
        if (headers.has(quoted ?? angled ?? "")) return true;
        // Quoted names are looked for in the working folder, too.
        return angled !== undefined && !/^\/|\.\./.test(angled);
      });
  });
}

/** All that may be an inclusion, those in comments included. */
const inclusions =
  /(?:(?:#|%:|\?\?=)(?:\s|\/\*(?:[^*]|\*(?!\/))*\*\/)*(?=[ie])|\b(?=__has_))(?<directive>include_next|include|import|embed|__has_include_next|__has_include|__has_embed)\b(?:\s|\/\*(?:[^*]|\*(?!\/))*\*\/|\()*(?<operand>[^\n]*)/g;
