import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { decodeMetadata, encodeMetadata, type JsonValue } from "../../../src/sharing/protocol/metadata.ts";

/** Metadata, nested as deeply as its maximum length allows. */
function nested(wrap: (inner: JsonValue) => JsonValue, depth: number): JsonValue {
  let value: JsonValue = 1;
  for (let level = 0; level < depth; level++) value = wrap(value);
  return value;
}

test("metadata that JSON represents arrives as it was", () => {
  const shared = { type: "float32" };
  const values: readonly JsonValue[] = [
    null,
    "",
    0.5,
    true,
    [],
    { shape: [2, 3], layers: [shared, shared], loss: null, "": "é\ud800" },
    nested((inner) => [inner], 16_000),
    nested((a) => ({ a }), 5000),
  ];
  for (const value of values) {
    const json = encodeMetadata(value);
    assertEquals(JSON.stringify(decodeMetadata(json)), json);
    if (json.length < 100) assertEquals(decodeMetadata(json), value);
  }
  assertEquals(encodeMetadata(undefined), "");
  assertEquals(
    encodeMetadata({ since: new Date(0), none: undefined } as never),
    '{"since":"1970-01-01T00:00:00.000Z"}',
  );
});

test("metadata that JSON would change is refused, with its place and what to do", () => {
  const refused: readonly (readonly [metadata: unknown, message: string])[] = [
    [{ decode() {} }, "Cannot send metadata.decode, the function decode: JSON cannot represent it; leave it out"],
    [{ loss: NaN }, "Cannot send metadata.loss, NaN: JSON cannot represent it; give a finite number"],
    [[1, -Infinity], "Cannot send metadata[1], -Infinity: JSON"],
    [{ a: [{ b: 5n }] }, "Cannot send metadata.a[0].b, a bigint: JSON cannot represent it; give a string or a number"],
    [
      { shape: new Uint32Array(2) },
      "Cannot send metadata.shape, a Uint32Array: JSON cannot represent it; give an array",
    ],
    [[undefined], "Cannot send metadata[0], undefined"],
    [new Map(), "Cannot send metadata, a Map: JSON cannot represent it; give numbers and strings"],
    [() => {}, "Cannot send a function as metadata"],
    [Symbol("x"), "Cannot send"],
  ];
  for (const [metadata, message] of refused) {
    assertThrows(() => encodeMetadata(metadata as JsonValue), TypeError, message);
  }
  const circle: unknown[] = [];
  circle.push(circle);
  assertThrows(() => encodeMetadata(circle as JsonValue), TypeError, "Cannot send metadata that JSON cannot represent");
  circle.push(1n);
  assertThrows(() => encodeMetadata(circle as JsonValue), TypeError, "Cannot send metadata[1], a bigint");
  const failure = new Error("its own");
  const failing = {
    toJSON() {
      throw failure;
    },
  };
  assertEquals(assertThrows(() => encodeMetadata(failing as never)), failure);
});
