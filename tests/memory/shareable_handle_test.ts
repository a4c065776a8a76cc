import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { closeSync, fstatSync, openSync } from "node:fs";
import { inspect } from "node:util";
import { createMemoryFile } from "../../ffi/native/shim/memory_files.ts";
import { ShareableHandle } from "../../src/memory/handles/shareable_handle.ts";
import { leakTest } from "../support/resources.ts";

leakTest("a descriptor is closed once", () => {
  const fd = createMemoryFile("poolpass-test", 1);
  const handle = ShareableHandle.fromFd(fd);
  assertEquals([handle.type, handle.fd], ["posix-fd", fd]);
  handle[Symbol.dispose]();
  // The number now belongs to another file, which a second close would close.
  const other = openSync("/dev/null", "r");
  handle[Symbol.dispose]();
  fstatSync(other);
  closeSync(other);
  assertThrows(() => handle.fd, ReferenceError, "Cannot use the posix-fd handle: it was disposed");
});

leakTest("numbers that are not open descriptors are refused by name", () => {
  assertThrows(() => ShareableHandle.fromFd(1.5), TypeError, "descriptor 1.5");
  assertThrows(() => ShareableHandle.fromFd("3" as unknown as number), TypeError, "not an integer");
  assertThrows(() => ShareableHandle.fromFd(-1), RangeError, "descriptor -1");
  assertThrows(() => ShareableHandle.fromFd(2 ** 31), RangeError, "out of range");
  assertThrows(() => ShareableHandle.fromFd(987654), RangeError, "Cannot take over descriptor 987654: it is not open");
});

leakTest("a fabric handle has a copy of 64 bytes", () => {
  const bytes = Uint8Array.from({ length: 64 }, (_, i) => i);
  const handle = ShareableHandle.fromBytes(bytes);
  bytes.fill(0);
  assertEquals([handle.type, handle.bytes[63]], ["fabric", 63]);
  assertThrows(() => ShareableHandle.fromBytes(new Uint8Array(63)), RangeError, "63 bytes");
  assertThrows(() => ShareableHandle.fromBytes("x" as unknown as Uint8Array), TypeError, "Uint8Array");
  handle[Symbol.dispose]();
  assertThrows(() => handle.bytes, ReferenceError, "fabric handle");
});

leakTest("a handle of each kind has either fd or bytes", () => {
  using fabric = ShareableHandle.fromBytes(new Uint8Array(64));
  using posix = ShareableHandle.fromFd(createMemoryFile("poolpass-test", 1));
  assertThrows(() => fabric.fd, TypeError, "bytes instead");
  assertThrows(() => posix.bytes, TypeError, "fd instead");
});

leakTest("a handle prints its type and descriptor", () => {
  const handle = ShareableHandle.fromFd(createMemoryFile("poolpass-test", 1));
  assertStringIncludes(inspect(handle), `posix-fd ${handle.fd}`);
  handle[Symbol.dispose]();
  assertEquals(inspect(handle), "ShareableHandle { posix-fd, disposed }");
});
