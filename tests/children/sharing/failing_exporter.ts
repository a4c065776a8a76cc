// An exporter that has no free descriptor, and cannot accept, until a process connects:
// node tests/children/sharing/failing_exporter.ts PATH
import process from "node:process";
import { closeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { waitUntil } from "../../../src/support/waiting/waiting.ts";
import { takeAllDescriptors } from "../../support/take_all_descriptors.ts";

/** Milliseconds in which the exporter tries to accept more than once. */
const severalAttempts = 250;

const errors: Error[] = [];
const exporter = Exporter.listen(process.argv[2]!, { onError: (error) => void errors.push(error) });
const taken = takeAllDescriptors(0);
console.log("listening");
await waitUntil(() => errors.length > 0);
const end = performance.now() + severalAttempts;
await waitUntil(() => performance.now() > end);
for (const fd of taken) closeDescriptor(fd);
await waitUntil(() => exporter.importers.length > 0);
console.log("errors:", errors.map((error) => (error as { code?: string }).code).join());
await waitUntil(() => exporter.importers.length === 0);
process.exit();
