// An end of sharing without free descriptors: node tests/children/sharing/abuse_few_descriptors.ts MODE PATH. Prints
// what happens, and continues when descriptors are free again. "export" listens at PATH, and at PATH.go for its test,
// which sends a byte for each step; "import" connects to PATH.
import process from "node:process";
import { closeDescriptor } from "../../../ffi/native/shim/descriptors.ts";
import { open } from "../../../src/open.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import { UnixListener } from "../../../src/sharing/transport/unix_listener.ts";
import { takeAllDescriptors } from "../../support/take_all_descriptors.ts";

const [mode, path] = process.argv.slice(2) as [string, string];
const cuda = open({ driver: "software" });
const gpu = cuda.device(0);

if (mode === "export") {
  await using go = UnixListener.listen(`${path}.go`);
  const exporter = Exporter.listen(path);
  const pools = [gpu.createPool({ handleType: "posix-fd" }), gpu.createPool({ handleType: "posix-fd" })] as const;
  const [first, second] = [pools[0].allocateArray(Uint32Array, 4), pools[1].allocateArray(Uint32Array, 4)];
  first.fill(1);
  exporter.offer("first", first);
  console.log("ready");
  await using test = await go.accept();
  const taken = takeAllDescriptors(0);
  console.log("offer:", await codeOf(() => exporter.offer("second", second)));
  // With one descriptor, it can accept a connection but not identify the peer.
  closeDescriptor(taken.pop()!);
  console.log("one is left");
  await test.receive(1);
  taken.push(...takeAllDescriptors(0));
  console.log("full");
  await test.receive(1);
  for (const fd of taken) closeDescriptor(fd);
  console.log("offer:", await codeOf(() => exporter.offer("second", second)));
  await test.receive(1);
} else {
  const importer = await Importer.connect(cuda, path);
  const offer = await importer.offer("weights");
  const taken = takeAllDescriptors(0);
  console.log("map:", await codeOf(() => offer.map()));
  console.log("connect:", await codeOf(() => Importer.connect(cuda, path)));
  console.log("another pool:", await codeOf(() => importer.offer("late")));
  for (const fd of taken) closeDescriptor(fd);
  await importer[Symbol.asyncDispose]();
  await using again = await Importer.connect(cuda, path);
  using weights = await (await again.offer("weights")).map();
  using late = await (await again.offer("late")).map();
  console.log("after:", weights.byteLength, late.byteLength);
}

async function codeOf(call: () => unknown): Promise<string> {
  try {
    await call();
    return "nothing";
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}
