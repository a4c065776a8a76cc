// An end of sharing that runs as another user: node tests/children/sharing/abuse_other_user.ts MODE PATH USER.
// "connect" prints whether it can connect to PATH; "listen" offers "theirs" there to root.
import process from "node:process";
import { open } from "../../../src/open.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";

const root = 0;
const [mode, path, user] = process.argv.slice(2) as [string, string, string];
process.setgid!(Number(user));
process.setuid!(Number(user));
const cuda = open({ driver: "software" });

if (mode === "connect") {
  try {
    await using importer = await Importer.connect(cuda, path, { users: [root] });
    using weights = await (await importer.offer("weights")).map();
    console.log("mapped", weights.byteLength);
  } catch (error) {
    console.log((error as { code?: string }).code ?? String(error));
  }
} else {
  const pool = cuda.device(0).createPool({ handleType: "posix-fd" });
  const theirs = pool.allocateArray(Uint32Array, 4);
  theirs.fill(7);
  Exporter.listen(path, { users: [root] }).offer("theirs", theirs);
  console.log("ready");
  setInterval(() => {}, 1000);
}
