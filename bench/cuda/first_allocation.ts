/**
 * The shortest program that allocates from a pool.
 *
 * @module
 */
import { open } from "../../mod.ts";

using cuda = open();
const device = cuda.device(0);
using stream = device.createStream({ nonBlocking: true });
using pool = device.createPool({ releaseThreshold: Infinity });
using _buffer = pool.allocate(2 ** 20, stream);
console.log("allocated");
