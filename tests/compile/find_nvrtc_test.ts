import { assertMatch } from "@std/assert";
import { mkdirSync, symlinkSync } from "node:fs";
import { basename } from "node:path";
import { dlopen, ffiRefusal } from "../../ffi/native/host.ts";
import { libraryOf, type LoadedLibrary, toolkitCandidates } from "../../ffi/toolkit_libraries.ts";
import { inFolder } from "../support/folders.ts";
import { startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";

function findLibrary(): LoadedLibrary | undefined {
  if (ffiRefusal() !== undefined) return undefined;
  for (const name of toolkitCandidates({ names: ["libnvrtc.so.13", "libnvrtc.so.12"], packageFolder: "cuda_nvrtc" })) {
    try {
      const library = dlopen(name, { nvrtcVersion: { parameters: ["buffer", "buffer"], result: "i32" } });
      return libraryOf(library.addressOfFunction("nvrtcVersion")!);
    } catch {
      // Not there.
    }
  }
  return undefined;
}

const nvrtc = findLibrary();
const skip = nvrtc === undefined && "no libnvrtc was found";

for (const variable of ["CONDA_PREFIX", "CUDA_HOME"]) {
  test(`NVRTC is found in lib of ${variable}, also if it is a link to a toolkit elsewhere`, { skip }, async () => {
    await inFolder(async (folder) => {
      mkdirSync(`${folder}/lib`);
      symlinkSync(nvrtc!.realPath, `${folder}/lib/${basename(nvrtc!.path)}`);
      const none = { CUDA_HOME: "", CUDA_PATH: "", VIRTUAL_ENV: "", CONDA_PREFIX: "", HOME: "" };
      await using child = startScript("children/compile/find_nvrtc.ts", [], { env: { ...none, [variable]: folder } });
      assertMatch(await child.nextLine() ?? await child.errors(), /^nvrtc \d+\.\d+: _Z1fP6__half$/);
    });
  });
}
