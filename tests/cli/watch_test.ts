import { assertEquals, assertStringIncludes } from "@std/assert";
import { spawn } from "node:child_process";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { run } from "../../cli/poolpass.ts";
import { readSourceFiles } from "../../cli/bind/source_files.ts";
import { ptx as fill } from "../../kernels/fill.ts";
import { ptx as saxpy } from "../../kernels/saxpy.ts";
import { inFolder } from "../support/folders.ts";
import { test } from "../support/test.ts";

/** Lines that arrive later. */
class Lines {
  readonly #lines: string[] = [];
  #notify: () => void = () => {};

  add(line: string): void {
    this.#lines.push(line);
    this.#notify();
  }

  async next(): Promise<string> {
    while (this.#lines.length === 0) await new Promise<void>((resolve) => this.#notify = resolve);
    return this.#lines.shift()!;
  }
}

test("--watch binds again when a file changes, also by being replaced, and goes on after an error", async () => {
  await inFolder(async (folder) => {
    const [file, out] = [join(folder, "k.ptx"), join(folder, "k.ts")];
    const lines = new Lines();
    const stop = new AbortController();
    const code = run(["bind", file, "--watch"], {
      print: (text) => lines.add(text),
      printError: (text) => lines.add(text),
      signal: stop.signal,
    });
    assertEquals(await lines.next(), `Cannot read ${file}: there is no such file`);
    writeFileSync(file, saxpy);
    assertEquals(await lines.next(), `${out}: saxpy`);
    writeFileSync(join(folder, "other"), "not watched");
    writeFileSync(join(folder, "new.ptx"), fill);
    renameSync(join(folder, "new.ptx"), file);
    assertEquals(await lines.next(), `${out}: fill`);
    writeFileSync(file, "nonsense");
    assertEquals(await lines.next(), "Cannot bind k.ptx: it is not the text of PTX");
    assertStringIncludes(readFileSync(out, "utf8"), "fill: [");
    writeFileSync(file, saxpy);
    assertEquals(await lines.next(), `${out}: saxpy`);
    stop.abort();
    assertEquals(await code, 0);
  });
});

test("the headers of a source are watched, those too that do not exist yet", async () => {
  await inFolder((folder) => {
    const write = (name: string, text: string) => writeFileSync(join(folder, name), text);
    write("k.cu", '#include "a.cuh"\n  #  include <b.cuh>\n#include "missing.cuh"\n#include <cuda_fp16.h>\n');
    write("a.cuh", '#include "a.cuh"\n#include "c.cuh"\n');
    write("b.cuh", "");
    write("c.cuh", "// c");
    const files = readSourceFiles(join(folder, "k.cu"), []);
    const names = [...files].map(([path, text]) => [path.slice(folder.length + 1), text?.length]);
    assertEquals(names.slice(1), [
      ["a.cuh", 34],
      ["b.cuh", 0],
      ["missing.cuh", undefined],
      ["cuda_fp16.h", undefined],
      ["c.cuh", 4],
    ]);
    return Promise.resolve();
  });
});

test("the program ends with 0 on Ctrl-C while it watches", async () => {
  await inFolder(async (folder) => {
    const file = join(folder, "k.ptx");
    writeFileSync(file, saxpy);
    const program = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
    const args = "Deno" in globalThis ? ["run", "--allow-all", "--no-config", program] : [program];
    const child = spawn(process.execPath, [...args, "bind", file, "--watch"], { stdio: ["ignore", "pipe", "inherit"] });
    const ended = new Promise<unknown[]>((resolve) => child.on("exit", (...outcome) => resolve(outcome)));
    const [output] = await new Promise<[Uint8Array]>((resolve) => child.stdout.once("data", (data) => resolve([data])));
    assertEquals(new TextDecoder().decode(output), `${join(folder, "k.ts")}: saxpy\n`);
    // Deno takes a child that its own method kills for killed, whatever the child does.
    process.kill(child.pid!, "SIGINT");
    assertEquals(await ended, [0, null]);
  });
});
