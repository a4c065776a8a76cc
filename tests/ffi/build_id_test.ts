import { assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { buildIdOf } from "../../ffi/nvrtc.ts";
import { dlopen, ffiRefusal } from "../../ffi/native/host.ts";
import { libraryOf } from "../../ffi/toolkit_libraries.ts";
import { test } from "../support/test.ts";

test("the build ID of a library is read where it has been loaded", { skip: ffiRefusal() ?? false }, () => {
  for (const name of ["libc.so.6", "libm.so.6"]) {
    const symbol = name === "libc.so.6" ? "getpid" : "cos";
    const library = dlopen(name, { [symbol]: { parameters: [], result: "i32" } });
    const { path, base } = libraryOf(library.addressOfFunction(symbol)!)!;
    const id = buildIdOf(base)!;
    // In the file, it stands behind the header of its note.
    const header = "040000001400000003000000474e5500";
    assertEquals(readFileSync(path).toString("hex").split(header)[1]?.slice(0, 40), id);
    library.close();
  }
});
