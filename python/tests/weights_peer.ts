/**
 * Verifies the weights "a" and "b" of the store at a path, and publishes "c": prints the digests.
 *
 * deno run --allow-all weights_peer.ts PATH
 */
import { open, StoreClient } from "../../mod.ts";
import { encodeSafetensorsHeader } from "../../src/files/safetensors_header.ts";
import { mapWeights, publishWeights } from "../../weights.ts";

const [path] = Deno.args;
using cuda = open({ driver: "software" });
await using client = await StoreClient.connect(cuda, path!);
for (const name of ["a", "b"]) {
  await using held = await mapWeights(client, name);
  console.log(await held.verify());
}
const bias = { name: "layer.bias", dtype: "float32", shape: [3], byteOffset: 0, byteLength: 12 };
const header = encodeSafetensorsHeader({ metadata: new Map(), tensors: [bias] });
const file = new Uint8Array([...header, ...new Uint8Array(new Float32Array([0, 1, 2]).buffer)]);
await using published = await publishWeights(client, "c", file);
console.log(published.digest);
