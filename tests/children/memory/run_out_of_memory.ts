/** Allocates more than a device has, and prints the message. */
import { open } from "../../../mod.ts";

using cuda = open();
using pool = cuda.device(0).createPool();
using _buffer = pool.allocate(3 * 2 ** 20);
try {
  pool.allocate(2 ** 40);
} catch (error) {
  console.log((error as Error).message.replaceAll("\n", " "));
}
