// Prints objects as a REPL does.
import { open } from "../../../mod.ts";

using cuda = open();
const gpu = cuda.device(0);
using pool = gpu.createPool();
using event = gpu.createEvent();
console.log(cuda, [gpu.defaultStream, event], { pool });
