import { assert, assertEquals, assertThrows } from "@std/assert";
import { addressOf, dlopen, ffiRefusal, foreignBuffer, jsRuntime } from "../../ffi/native/host.ts";
import { startScript } from "../support/child_process.ts";
import { test } from "../support/test.ts";

test("the runtime is detected, and permits FFI", () => {
  const expected = "Deno" in globalThis ? "deno" : "Bun" in globalThis ? "bun" : "node";
  assertEquals(jsRuntime, expected);
  assertEquals(ffiRefusal(), undefined);
});

test("functions take and return each type", () => {
  const libc = dlopen("libc.so.6", {
    abs: { parameters: ["i32" /* int j */], result: "i32" },
    llabs: { parameters: ["i64" /* long long j */], result: "i64" },
    htonl: { parameters: ["u32" /* uint32_t hostlong */], result: "u32" },
    toupper: { parameters: ["u8" /* int c */], result: "u8" },
    strnlen: { parameters: ["buffer", /* const char *s */ "u64" /* size_t maxlen */], result: "u64" },
    free: { parameters: ["buffer" /* void *ptr */], result: "void" },
  }).symbols;
  assertEquals(libc.abs!(-5), 5);
  assertEquals(libc.llabs!(-(2n ** 60n)), 2n ** 60n);
  assertEquals(libc.htonl!(0xff), 0xff000000);
  assertEquals(libc.toupper!(97), 65);
  assertEquals(libc.strnlen!(new TextEncoder().encode("four\0"), 2n ** 63n), 4n);
  assertEquals(libc.free!(null), undefined);
});

test("a missing symbol is undefined, and the others work", () => {
  const library = dlopen("libc.so.6", {
    poolpass_no_such_function: { parameters: [], result: "void" },
    getpid: { parameters: [], result: "i32" },
  });
  assertEquals(library.symbols.poolpass_no_such_function, undefined);
  assert(library.symbols.getpid!() > 0);
  library.close();
  library.close();
});

test("lazily bound functions work, and missing ones are undefined", () => {
  const library = dlopen("libc.so.6", {
    poolpass_no_such_function: { parameters: [], result: "void" },
    abs: { parameters: ["i32" /* int j */], result: "i32" },
    llabs: { parameters: ["i64" /* long long j */], result: "i64" },
  }, { lazy: true });
  const { llabs } = library.symbols;
  assertEquals(library.symbols.poolpass_no_such_function, undefined);
  for (const value of [-5, 6]) assertEquals(library.symbols.abs!(value), Math.abs(value));
  for (const value of [-5n, 6n]) assertEquals(llabs!(value), value < 0n ? -value : value);
  library.close();
  library.close();
});

test("after its first call, a lazily bound function is the runtime's own under every name in its object", () => {
  const library = dlopen("libc.so.6", { abs: { parameters: ["i32" /* int j */], result: "i32" } }, { lazy: true });
  const functions = { ...library.symbols, another: library.symbols.abs, other: ffiRefusal };
  const lazy = functions.abs;
  functions.another!(-5);
  assertEquals(functions.abs === lazy, jsRuntime !== "deno", "Only Deno's functions are replaced");
  assertEquals(functions.abs, functions.another);
  assertEquals(functions.other, ffiRefusal);
  assertEquals(functions.abs!(-6), 6);
  library.close();
});

test("the error for a missing library names it", () => {
  const open = () => dlopen("libpoolpass-none.so", { getpid: { parameters: [], result: "i32" } });
  assertThrows(open, Error, "Cannot load the library libpoolpass-none.so: ");
});

test("nonblocking calls return their result, directly or as a promise", async () => {
  const libc = dlopen("libc.so.6", {
    abs: { parameters: ["i32" /* int j */], result: "i32", nonblocking: true },
  }).symbols;
  assertEquals(await libc.abs!(-5), 5);
});

test("addressOf returns the address of a view's first byte, and foreignBuffer views memory at an address", () => {
  for (const bytes of [new Uint8Array(8), new Uint8Array(100_000), new Uint8Array(new SharedArrayBuffer(8))]) {
    const address = addressOf(bytes);
    assertEquals(addressOf(bytes.subarray(5)), address + 5n);
    assertEquals(addressOf(new DataView(bytes.buffer, 3)), address + 3n);
    bytes[7] = 9;
    const seen = new Uint8Array(foreignBuffer(address, 8));
    assertEquals(seen[7], 9);
    seen[0] = 8;
    assertEquals(bytes[0], 8);
  }
  assertEquals(addressOf(new Uint8Array(0)), 0n);
  assertEquals(addressOf(new Uint8Array(8).subarray(8)), 0n);
  assertEquals(foreignBuffer(0n, 0).byteLength, 0);
});

test("any part of a 4 GiB memory can be passed", () => {
  const memory = new Uint8Array(new WebAssembly.Memory({ initial: 65536, maximum: 65536, shared: true }).buffer);
  const { memcpy } = dlopen("libc.so.6", {
    memcpy: {
      parameters: ["buffer", /* void *dest */ "buffer", /* const void *src */ "u64" /* size_t n */],
      result: "u64",
    },
  }).symbols;
  memory[0] = 77;
  assertEquals(memcpy!(memory.subarray(-1), memory, 1n), addressOf(memory) + 2n ** 32n - 1n);
  assertEquals(memory[2 ** 32 - 1], 77);
});

const needsProcess = jsRuntime === "deno" ? undefined : "only Deno loads its Node modules lazily";

test("opening a device loads none of Deno's Node modules", { skip: needsProcess }, async () => {
  await using child = startScript("children/open_without_node.ts", []);
  assertEquals(await child.nextLine(), "opened", await child.errors());
});

const notDeno = jsRuntime === "deno" ? undefined : "only Deno has permissions";

test("without permission for FFI, errors give the reason, and nothing prompts", { skip: notDeno }, async () => {
  await using child = startScript("children/print_refusal.ts", [], { permissions: [] });
  const lines: (string | undefined)[] = [];
  for (let i = 0; i < 4; i++) lines.push(await child.nextLine());
  assertEquals(await child.ended, 0, await child.errors());
  assertEquals(lines, [
    "FFI is not permitted; run with --allow-ffi",
    "undefined",
    "Cannot load the library libc.so.6: FFI is not permitted; run with --allow-ffi",
    "Cannot listen at /tmp/never: FFI is not permitted; run with --allow-ffi",
  ]);
});
