import { assertEquals, assertMatch } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { pathToFileURL } from "node:url";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { type SkipReason, test } from "../support/test.ts";

const skip: SkipReason = "Deno" in globalThis ? shimRefusal() ?? false : "only Deno imports from a URL";
/** Building the file takes npx and many seconds; .ci/run includes all tests. */
const options = { skip, long: true };

const script = (host: string) =>
  `import { open } from "http://${host}/poolpass.js";

using cuda = open();
using pool = cuda.device(0).createPool();
using buffer = pool.allocate(1024);
buffer.fill(7);
console.log(cuda.driver, ...await buffer.read(Uint8Array, { length: 2 }));
`;

/** A script of the project, with wrong types. */
const wrongScript = (host: string) =>
  `import { open } from "http://${host}/poolpass.js";\nconst devices: string = open().devices;\n`;

let folder: string;
let built: URL;
before(async () => {
  if (skip || Deno.env.get("POOLPASS_LONG") !== "1") return;
  folder = mkdtempSync(join(tmpdir(), "poolpass-one-file-"));
  built = pathToFileURL(`${folder}/built/`);
  // Not imported before it is needed: the module runs only in Deno.
  const { buildForUrl } = await import("../../packaging/build.ts");
  await buildForUrl(built);
});
after(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true });
});

/** The outcome of a program, and the paths that it has requested from the server. */
interface Outcome {
  readonly code: number;
  readonly output: string;
  readonly errors: string;
  readonly requests: readonly string[];
}

/** Runs a command of Deno with a script that imports from a server of the built files, with an empty cache. */
async function runDeno(command: readonly string[], script: (host: string) => string): Promise<Outcome> {
  const requests: string[] = [];
  await using server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { pathname } = new URL(request.url);
    requests.push(pathname);
    const type = pathname.endsWith(".js") ? "text/javascript" : "application/typescript";
    return new Response(await Deno.readFile(new URL(`.${pathname}`, built)), { headers: { "content-type": type } });
  });
  const host = `127.0.0.1:${server.addr.port}`;
  const project = await Deno.makeTempDir({ dir: folder });
  await Deno.writeTextFile(`${project}/script.ts`, script(host));
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...command, "--no-lock", "--no-config", "--quiet", `--allow-import=${host}`, "script.ts"],
    cwd: project,
    env: { DENO_DIR: `${project}/cache`, NO_COLOR: "1", NO_PROXY: "127.0.0.1", POOLPASS_DRIVER: "software" },
    stdin: "null",
  }).output();
  const [output, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)) as [string, string];
  return { code, output, errors, requests };
}

test("the one file of the library is imported in one request, and needs only --allow-ffi", options, async () => {
  const denied = ["read", "write", "net", "env", "sys", "run"].map((name) => `--deny-${name}`);
  assertEquals(await runDeno(["run", "--no-prompt", "--allow-ffi", ...denied], script), {
    code: 0,
    output: "software 7 7\n",
    errors: "",
    requests: ["/poolpass.js"],
  });
});

test("the types of the one file take one request more", options, async () => {
  const { requests, ...right } = await runDeno(["check"], script);
  assertEquals([right, [...requests].sort()], [{ code: 0, output: "", errors: "" }, [
    "/poolpass.d.ts",
    "/poolpass.js",
  ]]);
  const { code, errors } = await runDeno(["check"], wrongScript);
  assertEquals(code, 1);
  assertMatch(errors, /readonly CudaDevice\[\].* is not assignable to type 'string'/);
});
