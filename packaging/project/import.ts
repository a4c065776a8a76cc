/**
 * Computes in place in a buffer that another process shares at the socket path in its argument.
 *
 * @module
 */
import process from "node:process";
import { open } from "../../mod.ts";
import { ptx } from "../../kernels/saxpy.ts";
import { Importer } from "../../sharing.ts";

using cuda = open({ driver: "software" });
const gpu = cuda.device(0);
using stream = gpu.createStream();
await using importer = await Importer.connect(cuda, process.argv[2]!);
const offer = await importer.offer("numbers");
using numbers = await offer.map({ stream });
using module = gpu.loadModule(ptx);
module.kernel("saxpy").launch({ grid: 1, block: 32, stream }, 3, 2, numbers, numbers);
console.log((await numbers.read(Float32Array)).join(" "));
