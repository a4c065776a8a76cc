/**
 * The map of the sources in CONTRIBUTING.md.
 *
 * @module
 */
import { readdirSync } from "node:fs";
import { blocksOfPage } from "./blocks.ts";
import { readProjectFile, root } from "./scripts.ts";

/** Returns the paths that the map names, relative to the project's folder. The paths of folders end with a slash. */
export function pathsOfMap(): string[] {
  const map = blocksOfPage("CONTRIBUTING.md", readProjectFile("CONTRIBUTING.md")).find(({ text }) =>
    /^src\/ /m.test(text)
  );
  const folders: string[] = [];
  return map!.text.split("\n").flatMap((line) => {
    // Names, separated by one space, and a description, separated by more.
    const [, indent, names, description] = /^( *)(\S+(?: \S+)*?) {2,}(.*)$/.exec(line)!;
    const depth = indent!.length / 2;
    const parent = depth === 0 ? "" : folders[depth - 1]!;
    const paths = names!.split(" ").map((name) => `${parent}${name}`);
    folders[depth] = paths[0]!;
    const described = description!.match(/\b\w+\/(?= |,|$)/g) ?? [];
    return [...paths, ...described.map((name) => `${paths[0]}${name}`)];
  });
}

/** Returns the folders that the map must name: all that the library has, and those of the tests. */
export function foldersToMap(): string[] {
  return [...foldersOf("src/", true), ...foldersOf("ffi/", true), ...foldersOf("tests/", false)];
}

function foldersOf(folder: string, recursive: boolean): string[] {
  const entries = readdirSync(new URL(folder, root), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const folders = entries.map(({ name }) => `${folder}${name}/`);
  return recursive ? folders.flatMap((each) => [each, ...foldersOf(each, true)]) : folders;
}
