// Copies between buffers, devices, page-locked memory and typed arrays.
import { open } from "../../../mod.ts";

using cuda = open({ softwareDevices: 2 });
using stream = cuda.device(0).createStream();
using pool = cuda.device(0).createPool();
using peers = cuda.device(1).createPool();
using buffer = pool.allocate(16, stream);
using other = peers.allocate(16);
using host = cuda.allocateHost(16);
buffer.fill(1);
buffer.subarray(4, 8).copyFrom(Uint8Array.of(2, 3, 4, 5));
await stream.finished();
other.copyFrom(buffer);
other.copyTo(host);
await cuda.device(1).finished();
console.log(new Uint32Array(host.buffer).join(" "), other.readSync(Uint8Array, { byteOffset: 3, length: 3 }).join(" "));
