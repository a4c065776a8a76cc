import { assertEquals, assertThrows } from "@std/assert";
import { describeTensors, tensorsOfEntry } from "../../examples/weights/tensor_entry.ts";
import type { SafetensorsTensor } from "../../safetensors.ts";
import { test } from "../support/test.ts";

const tensors: readonly SafetensorsTensor[] = [
  { name: "a", dtype: "float32", shape: [2, 3], byteOffset: 0, byteLength: 24 },
  { name: 'b "é"', dtype: "bfloat16", shape: [4], byteOffset: 256, byteLength: 8 },
];

test("an entry describes its tensors, and what another process says of them is checked", () => {
  const [placed, byteLength] = [tensors, 264];
  const metadata = describeTensors(placed, new Map([["format", "pt"]]));
  assertEquals(tensorsOfEntry({ metadata, byteLength }), { tensors: placed, metadata: new Map([["format", "pt"]]) });
  const [first] = placed;
  for (
    const wrong of [
      undefined,
      null,
      [],
      { format: "other", tensors: [] },
      { format: "safetensors", tensors: {} },
      { format: "safetensors", tensors: [null] },
      { format: "safetensors", tensors: [{ ...first, name: 1 }] },
      { format: "safetensors", tensors: [{ ...first, byteOffset: -1 }] },
      { format: "safetensors", tensors: [{ ...first, byteOffset: 1000 }] },
    ]
  ) {
    const call = () => tensorsOfEntry({ metadata: wrong as never, byteLength });
    assertThrows(call, Error, "The entry ", JSON.stringify(wrong));
  }
});
