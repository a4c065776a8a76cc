// Offers a buffer that another process maps and releases: offer.ts exporter|importer PATH
import { Exporter, Importer, open } from "../../../mod.ts";

const [role, path] = Deno.args as [string, string];
using cuda = open();
const gpu = cuda.device(0);
using stream = gpu.createStream();
if (role === "exporter") {
  using pool = gpu.createPool({ handleType: "posix-fd" });
  using buffer = pool.allocate(1024, stream);
  buffer.fill(9);
  await using exporter = Exporter.listen(path);
  const offer = exporter.offer("weights", buffer, { metadata: { dtype: "uint8" } });
  console.log("listening");
  await offer.released();
  console.log("released");
} else {
  await using importer = await Importer.connect(cuda, path);
  const offer = await importer.offer("weights");
  using weights = await offer.map({ stream });
  console.log((await weights.read(Uint8Array, { length: 2 })).join(" "), JSON.stringify(offer.metadata));
}
