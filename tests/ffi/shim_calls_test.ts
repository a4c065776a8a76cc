import { assert, assertEquals, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import process from "node:process";
import { environmentVariable } from "../../ffi/native/environment.ts";
import { dlopen } from "../../ffi/native/host.ts";
import {
  closeDescriptor,
  describeDescriptor,
  duplicateDescriptor,
  openDescriptor,
  readAt,
  sealSeal,
  sealShrink,
  writeAt,
} from "../../ffi/native/shim/descriptors.ts";
import {
  createMemoryFile,
  growMemoryFile,
  mapShared,
  punchHole,
  unmapShared,
} from "../../ffi/native/shim/memory_files.ts";
import { cString, errnoName, shim, shimRefusal, SystemError, unwrap } from "../../ffi/native/shim/shim.ts";
import { compilerVersion } from "../../ffi/native/shim/build.ts";
import { leakTest } from "../support/resources.ts";
import { fileURLToPath } from "node:url";
import { test } from "../support/test.ts";

const pageSize = 4096;

const takesByValue = `
  typedef struct { unsigned char bytes[64]; } handle;
  static int sum(handle h) { int total = 0; for (int i = 0; i < 64; i++) total += h.bytes[i] * (i + 1); return total; }
  int open_memory(void **out, handle h, unsigned flags) { *out = (void *)(unsigned long)flags; return sum(h); }
  int open_event(void **out, handle h) { *out = (void *)7; return -sum(h); }
  unsigned long address_of(int which) {
    return which == 0 ? (unsigned long)open_memory : (unsigned long)open_event;
  }`;

const noCompiler = compilerVersion("gcc") === undefined ? "gcc is not installed" : undefined;

test("a function that takes 64 bytes by value receives them", { skip: noCompiler }, () => {
  const folder = mkdtempSync("/tmp/poolpass-test-");
  try {
    writeFileSync(`${folder}/value.c`, takesByValue);
    const built = spawnSync("gcc", ["-shared", "-fPIC", "-o", `${folder}/value.so`, `${folder}/value.c`]);
    assertEquals(built.status, 0, String(built.stderr));
    const library = dlopen(`${folder}/value.so`, {
      address_of: { parameters: ["i32" /* int which */], result: "u64" },
    });
    const addressOfFunction = library.symbols.address_of!;
    const handle = Uint8Array.from({ length: 64 }, (_, i) => 255 - i * 3);
    const sum = handle.reduce((total, byte, i) => total + byte * (i + 1), 0);
    const out = new BigUint64Array(1);
    const outBytes = new Uint8Array(out.buffer);
    assertEquals(shim().poolpass_ipc_open_mem_handle(addressOfFunction(0), outBytes, handle, 0xfedcba98), sum);
    assertEquals(out[0], 0xfedcba98n);
    assertEquals(shim().poolpass_ipc_open_event_handle(addressOfFunction(1), outBytes, handle), -sum);
    assertEquals(out[0], 7n);
    library.close();
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the shim is loaded once, from memory", () => {
  assertEquals(shimRefusal(), undefined);
  assert(shim() === shim());
  const maps = readFileSync("/proc/self/maps", "utf8");
  assert(maps.includes("/memfd:poolpass-shim"), "The shim is mapped from a memory file");
});

test("the environment and the process id need only the permission for FFI", () => {
  assertEquals(environmentVariable("PATH"), process.env.PATH);
  assertEquals(environmentVariable("POOLPASS_NO_SUCH_VARIABLE"), undefined);
  assertEquals(shim().poolpass_getpid(), process.pid);
});

test("a long environment variable is read completely", () => {
  const script = fileURLToPath(new URL("../children/print_variable.ts", import.meta.url));
  const args = "Deno" in globalThis ? ["run", "--no-check", "--no-prompt", "--allow-ffi", script] : [script];
  const value = "ä".repeat(5000);
  const env = { ...process.env, POOLPASS_TEST_VARIABLE: value };
  const child = spawnSync(process.execPath, args, { encoding: "utf8", env });
  assertEquals(child.stdout.trim(), value, child.stderr);
});

leakTest("a memory file is sealed against shrinking, and grows", () => {
  const fd = createMemoryFile("poolpass-test", pageSize);
  const { type, byteLength, seals } = describeDescriptor(fd);
  assertEquals([type, byteLength, seals! & (sealSeal | sealShrink)], ["file", pageSize, sealSeal | sealShrink]);
  growMemoryFile(fd, 3 * pageSize);
  assertEquals(describeDescriptor(fd).byteLength, 3 * pageSize);
  const error = assertThrows(() => growMemoryFile(fd, pageSize), SystemError) as SystemError;
  assertEquals([error.name, error.code, error.errno, error.message], [
    "SystemError",
    "EPERM",
    1,
    "ftruncate failed: EPERM",
  ]);
  closeDescriptor(fd);
});

leakTest("a memory file can be mapped anywhere in a 4 GiB memory and unmapped", () => {
  const memory = new Uint8Array(new WebAssembly.Memory({ initial: 65536, maximum: 65536, shared: true }).buffer);
  const fd = createMemoryFile("poolpass-test", 2 * pageSize);
  const at = 2 ** 32 - pageSize;
  mapShared(memory, fd, { at, byteLength: pageSize, offset: pageSize });
  memory[at + 5] = 42;
  const byte = new Uint8Array(1);
  assertEquals(readAt(fd, byte, { offset: pageSize + 5 }), 1);
  assertEquals(byte[0], 42);
  writeAt(fd, Uint8Array.of(43), { offset: pageSize + 5 });
  assertEquals(memory[at + 5], 43);
  punchHole(fd, { offset: pageSize, byteLength: pageSize });
  assertEquals(memory[at + 5], 0);
  memory[at + 5] = 44;
  unmapShared(memory, { at, byteLength: pageSize });
  assertEquals(memory[at + 5], 0);
  readAt(fd, byte, { offset: pageSize + 5 });
  assertEquals(byte[0], 44);
  for (const [start, byteLength] of [[-pageSize, pageSize], [at, 2 * pageSize], [0, 0], [NaN, pageSize]] as const) {
    assertThrows(() => mapShared(memory, fd, { at: start, byteLength, offset: 0 }), RangeError, "Cannot map");
    assertThrows(() => unmapShared(memory, { at: start, byteLength }), RangeError, "Cannot map");
  }
  closeDescriptor(fd);
});

leakTest("a descriptor is duplicated, described, opened and closed", () => {
  const fd = createMemoryFile("poolpass-test", 100);
  const duplicate = duplicateDescriptor(fd);
  const opened = openDescriptor(`/proc/${process.pid}/fd/${fd}`, { writable: true });
  writeAt(opened, Uint8Array.of(9), { offset: 99 });
  const bytes = new Uint8Array(10);
  assertEquals(readAt(duplicate, bytes, { offset: 99 }), 1);
  assertEquals(bytes[0], 9);
  const [first, second, third] = [fd, duplicate, opened].map((each) => describeDescriptor(each));
  assert(first!.inode === second!.inode && second!.inode === third!.inode && first!.device === third!.device);
  for (const each of [fd, duplicate, opened]) closeDescriptor(each);
  assertThrows(() => openDescriptor("/nowhere"), SystemError, "open of /nowhere failed: ENOENT");
  assertThrows(() => describeDescriptor(987654), SystemError, "EBADF");
});

leakTest("only memory files have seals", () => {
  for (
    const [path, type] of [["/dev/null", "character device"], ["/etc/passwd", "file"], ["/tmp", "folder"]] as const
  ) {
    const fd = openSync(path, "r");
    assertEquals([describeDescriptor(fd).type, describeDescriptor(fd).seals], [type, undefined]);
    closeSync(fd);
  }
});

test("errors have Linux's names", () => {
  assertEquals([errnoName(98), errnoName(11), errnoName(4095)], ["EADDRINUSE", "EAGAIN", "errno 4095"]);
  assertThrows(() => unwrap(-98, "listen"), SystemError, "listen failed: EADDRINUSE");
  assertEquals(unwrap(3, "listen"), 3);
  assertEquals([...cString("a")], [97, 0]);
});
