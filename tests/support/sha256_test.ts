import { assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { sha256 } from "../../src/support/sha256.ts";
import { test } from "./test.ts";

test("SHA-256 is that of the runtime, for every length around a block's", () => {
  const bytes = Uint8Array.from({ length: 300 }, (_, index) => index * 89 ^ index >> 3);
  for (const length of [...Array(130).keys(), 299]) {
    const piece = bytes.subarray(1, 1 + length);
    assertEquals(sha256(piece).toHex(), createHash("sha256").update(piece).digest("hex"), `${length} bytes`);
  }
  assertEquals(
    sha256(new TextEncoder().encode("abc")).toHex(),
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
  );
});
