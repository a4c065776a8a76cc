/**
 * Arrays in files, without any permission: a user's bytes are read into device memory.
 *
 * @module
 */
import { DeviceArray, open } from "../../mod.ts";
import { readNpy } from "../../npy.ts";
import { readSafetensors } from "../../safetensors.ts";

const encoder = new TextEncoder();
const npyHeader = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
const npy = new Uint8Array([
  0x93,
  ...encoder.encode("NUMPY\x01\x00"),
  npyHeader.length,
  0,
  ...encoder.encode(npyHeader),
]);
const header = `{"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}`;
const safetensors = new Uint8Array([
  header.length,
  0,
  0,
  0,
  0,
  0,
  0,
  0,
  ...encoder.encode(header),
  0x80,
  0x3f,
  0,
  0x40,
]);

using cuda = open({ driver: "software" });
using pool = cuda.device(0).createPool();
using x = await readNpy(new Blob([npy, new Uint8Array(Float32Array.of(1, 2).buffer)]), { pool, type: Float32Array });
using tensors = await readSafetensors(safetensors, { pool });
const w = tensors.get("w")!;
console.log(x instanceof DeviceArray, (await x.toTypedArray()).join(" "), w.dtype, (await w.toTypedArray()).join(" "));
