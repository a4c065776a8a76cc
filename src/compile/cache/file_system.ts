/**
 * Files, synchronously, in Deno, Bun and Node. In Deno not by Node's modules, whose first use takes longer than a small
 * source takes to compile.
 *
 * @module
 */

/** A file of a folder. */
export interface FolderFile {
  readonly name: string;
  readonly byteLength: number;
  /** When it was written or touched, in milliseconds since 1970. */
  readonly modified: number;
}

/** What a cache does with files. All of it throws what the runtime throws. */
export interface FileSystem {
  /** Why a folder may not be read and written; undefined if it may. Never asks the user. */
  refusal(folder: string): string | undefined;
  /** Creates a folder, for this user alone, unless it exists. */
  createFolder(path: string): void;
  read(path: string): Uint8Array;
  /** Writes a file that does not exist yet, for this user alone. */
  create(path: string, bytes: Uint8Array): void;
  /** Renames a file, and replaces what has the other name. */
  rename(from: string, to: string): void;
  /** Sets the time of the last change to now. */
  touch(path: string): void;
  remove(path: string): void;
  list(folder: string): FolderFile[];
}

interface DenoNamespace {
  permissions: { querySync(descriptor: { name: "read" | "write"; path: string }): { state: string } };
  mkdirSync(path: string, options: object): void;
  readFileSync(path: string): Uint8Array;
  writeFileSync(path: string, bytes: Uint8Array, options: object): void;
  renameSync(from: string, to: string): void;
  utimeSync(path: string, accessed: Date, modified: Date): void;
  removeSync(path: string): void;
  readDirSync(path: string): Iterable<{ name: string; isFile: boolean }>;
  lstatSync(path: string): { size: number; mtime: Date | null };
}

interface NodeFileSystem {
  mkdirSync(path: string, options: object): void;
  readFileSync(path: string): Uint8Array;
  writeFileSync(path: string, bytes: Uint8Array, options: object): void;
  renameSync(from: string, to: string): void;
  utimesSync(path: string, accessed: Date, modified: Date): void;
  unlinkSync(path: string): void;
  readdirSync(path: string, options: { withFileTypes: true }): { name: string; isFile(): boolean }[];
  lstatSync(path: string): { size: number; mtimeMs: number };
}

interface Globals {
  Deno?: Partial<DenoNamespace>;
  process?: {
    permission?: { has(scope: "fs.read" | "fs.write", path: string): boolean };
    getBuiltinModule(name: "node:fs"): NodeFileSystem;
  };
}

const folderOptions = { recursive: true, mode: 0o700 };
const ownFile = { mode: 0o600 };

/** The files of the runtime. */
export function openFileSystem(): FileSystem {
  const globals = globalThis as unknown as Globals;
  // A stand-in for Deno in another runtime lacks permissions.
  if (globals.Deno?.permissions !== undefined) return denoFiles(globals.Deno as DenoNamespace);
  const { permission, getBuiltinModule } = globals.process!;
  return nodeFiles(
    getBuiltinModule("node:fs"),
    (path) => permission === undefined || permission.has("fs.read", path) && permission.has("fs.write", path),
  );
}

function denoFiles(deno: DenoNamespace): FileSystem {
  return {
    refusal(path) {
      const isGranted = (["read", "write"] as const).every((name) =>
        deno.permissions.querySync({ name, path }).state === "granted"
      );
      return isGranted ? undefined : denied(`--allow-read=${path} --allow-write=${path}`);
    },
    createFolder: (path) => deno.mkdirSync(path, folderOptions),
    read: (path) => deno.readFileSync(path),
    create: (path, bytes) => deno.writeFileSync(path, bytes, { createNew: true, ...ownFile }),
    rename: (from, to) => deno.renameSync(from, to),
    touch: (path) => deno.utimeSync(path, new Date(), new Date()),
    remove: (path) => deno.removeSync(path),
    list: (folder) =>
      filesOf(folder, Array.from(deno.readDirSync(folder)), (path) => {
        const { size, mtime } = deno.lstatSync(path);
        return { byteLength: size, modified: mtime?.getTime() ?? 0 };
      }),
  };
}

function nodeFiles(files: NodeFileSystem, isGranted: (path: string) => boolean): FileSystem {
  const entriesOf = (folder: string) =>
    files.readdirSync(folder, { withFileTypes: true }).map((entry) => ({ name: entry.name, isFile: entry.isFile() }));
  return {
    refusal: (path) => isGranted(path) ? undefined : denied(`--allow-fs-read=${path} --allow-fs-write=${path}`),
    createFolder: (path) => files.mkdirSync(path, folderOptions),
    read: (path) => files.readFileSync(path),
    create: (path, bytes) => files.writeFileSync(path, bytes, { flag: "wx", ...ownFile }),
    rename: (from, to) => files.renameSync(from, to),
    touch: (path) => files.utimesSync(path, new Date(), new Date()),
    remove: (path) => files.unlinkSync(path),
    list: (folder) =>
      filesOf(folder, entriesOf(folder), (path) => {
        const { size, mtimeMs } = files.lstatSync(path);
        return { byteLength: size, modified: mtimeMs };
      }),
  };
}

function denied(flags: string): string {
  return `it may not be read and written; run with ${flags}`;
}

function filesOf(
  folder: string,
  entries: readonly { readonly name: string; readonly isFile: boolean }[],
  describe: (path: string) => Omit<FolderFile, "name">,
): FolderFile[] {
  return entries.flatMap(({ name, isFile }) => {
    if (!isFile) return [];
    try {
      return [{ name, ...describe(`${folder}/${name}`) }];
    } catch {
      // Another process has removed it.
      return [];
    }
  });
}
