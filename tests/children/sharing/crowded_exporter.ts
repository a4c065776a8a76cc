// An exporter that prints "refused" when it first refuses a connection, and the errors of accepting:
// node tests/children/sharing/crowded_exporter.ts PATH
import process from "node:process";
import { open } from "../../../src/open.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import type { SharingError } from "../../../src/support/errors.ts";

let hasRefused = false;
const cuda = open({ driver: "software" });
const pool = cuda.device(0).createPool({ handleType: "posix-fd" });
const exporter = Exporter.listen(process.argv[2]!, {
  onError: (error) => console.log(`error: ${(error as SharingError).code}`),
  onDisconnect: (_peer, error) => {
    if (hasRefused || error?.code !== "limit-exceeded") return;
    hasRefused = true;
    // Deno opens descriptors for signals, and panics if there are none.
    process.on("SIGUSR2", () => {});
    console.log("refused");
  },
});
const weights = pool.allocate(64);
weights.fill(5);
exporter.offer("weights", weights);
console.log("listening");
