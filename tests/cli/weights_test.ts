import { assertEquals, assertMatch } from "@std/assert";
import { readdirSync, truncateSync, writeFileSync } from "node:fs";
import { type Cuda, MemoryStore, open, StoreClient } from "../../mod.ts";
import { writeSafetensors } from "../../safetensors.ts";
import { publishWeights } from "../../weights.ts";
import { shimRefusal } from "../../ffi/native/shim/shim.ts";
import { inFolder } from "../support/folders.ts";
import { poolpass, startPoolpass } from "../support/poolpass.ts";
import { test } from "../support/test.ts";

const skip = shimRefusal() ?? false;

/** Runs a body with a store, and a file of two tensors. */
async function withStore(
  body: (paths: { store: string; file: string; folder: string; cuda: Cuda }) => Promise<void>,
): Promise<void> {
  await inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    using pool = cuda.device(0).createPool();
    using bias = pool.allocateArray(new Float32Array([1, 2, 3]));
    using scale = pool.allocateArray(Uint16Array, { shape: [2, 2], dtype: "bfloat16" });
    scale.fill(0x3f80);
    const [store, file] = [`${folder}/store`, `${folder}/model.safetensors`];
    await writeSafetensors({ bias, scale }, file);
    await using _store = MemoryStore.listen(cuda, store);
    await body({ store, file, folder, cuda });
  });
}

const weights = (...args: string[]) => poolpass("weights", ...args, "--driver", "software");

test(
  "a file is published, listed and verified, and outlives the program that has loaded it",
  { skip },
  () =>
    withStore(async ({ store, file }) => {
      const published = await weights("publish", file, "--name", "layer", "--store", store, "--keep", "--verify");
      assertEquals([published.code, published.errors], [0, ""]);
      assertMatch(published.output, /^layer@[0-9a-f]{12}: 2 tensors, \d+ B in \d+\.\d\d s\n$/);
      const revision = /@([0-9a-f]+)/.exec(published.output)![1]!;

      const listed = await weights("list", "--store", store);
      assertEquals([listed.code, listed.errors], [0, ""]);
      const [heads, row] = listed.output.trimEnd().split("\n");
      assertEquals(heads!.split(/ {2,}/), [
        "name",
        "revision",
        "generation",
        "rank",
        "size",
        "tensors",
        "dtypes",
        "place",
        "readers",
        "sleepers",
      ]);
      assertEquals(row!.split(/ {2,}/).toSpliced(4, 1), [
        "layer",
        revision,
        "1",
        "0 of 1",
        "2",
        "F32, BF16",
        "device",
        "0",
        "0",
      ]);
      const [entry] = JSON.parse((await weights("list", "--store", store, "--json")).output);
      assertEquals([entry.name, entry.rank, entry.tensors, entry.readers], ["layer", [0, 1], 2, []]);
      assertEquals(entry.digest.slice(0, 12), revision);

      for (const name of ["layer", `layer@${revision}`]) {
        const verified = await weights("verify", name, "--store", store);
        assertEquals([verified.code, verified.output, verified.errors], [
          0,
          `layer@${entry.digest}: as published\n`,
          "",
        ]);
      }
    }),
);

test(
  "a name or a file that is not there is an error that says so",
  { skip },
  () =>
    withStore(async ({ store, file, folder }) => {
      const none = await weights("list", "--store", store);
      assertEquals([none.code, none.output], [0, "The store has no weights\n"]);
      const unknown = await weights("verify", "layer", "--store", store);
      assertEquals([unknown.code, unknown.output], [1, ""]);
      assertMatch(unknown.errors, /^Nothing is published as "layer"; the store has nothing/);
      assertEquals((await weights("publish", file, "--name", "layer", "--store", store)).code, 0);
      const other = await weights("verify", "layer@00000000", "--store", store);
      assertEquals(other.code, 1);
      assertMatch(other.errors, /the store has it with the digest [0-9a-f]{64}/);
      writeFileSync(`${folder}/text.safetensors`, "version https://git-lfs");
      const text = await weights("publish", `${folder}/text.safetensors`, "--name", "x", "--store", store);
      assertEquals(text.code, 1);
      assertMatch(text.errors, /text\.safetensors/);
    }),
);

test("a wrong command line says what is missing", { skip }, async () => {
  const cases: readonly (readonly [args: string[], error: RegExp])[] = [
    [
      [],
      /^Say what to do: poolpass weights publish, list, verify, offload, wake, save, restore; poolpass weights --help/,
    ],
    [["load"], /^Say what to do/],
    [["publish", "--store", "s", "--name", "n"], /takes one argument: a file/],
    [["list", "extra", "--store", "s"], /takes no argument/],
    [["verify", "--store", "s"], /takes one argument: a name/],
    [["list"], /--store SOCKET/],
    [["publish", "f", "--store", "s"], /--name NAME/],
    [["verify", "n", "--store", "s", "--name", "n"], /--name is for publish alone/],
    [["list", "--store", "s", "--keep"], /--keep is for publish alone/],
    [["list", "--stor", "s"], /There is no option --stor; did you mean "store"/],
  ];
  for (const [args, error] of cases) {
    const { code, errors } = await poolpass("weights", ...args);
    assertEquals(code, 2, errors);
    assertMatch(errors, error);
  }
});

test(
  "weights are offloaded, woken, saved and restored, and what is cut is named",
  { skip },
  () =>
    withStore(async ({ store, file, folder }) => {
      const at = ["--store", store];
      for (const name of ["one", "two"]) await weights("publish", file, "--name", name, ...at);
      const place = async () => JSON.parse((await weights("list", ...at, "--json")).output)[0].place;
      const offloaded = await weights("offload", "one", "--to", "host", ...at);
      assertEquals([offloaded.code, offloaded.errors], [0, ""]);
      assertMatch(offloaded.output, /^one: \d+ B in host memory\n$/);
      assertEquals(await place(), "host");
      assertEquals((await weights("wake", "one", ...at)).code, 0);
      assertEquals(await place(), "device");
      const toFile = await weights("offload", "one", "--to", folder, ...at);
      assertMatch(toFile.output, /^one: \d+ B in .*\/one@[0-9a-f]{64}\.safetensors\n$/);
      const saved = await weights("save", folder, ...at);
      assertEquals([saved.code, saved.output], [0, "one: saved\ntwo: saved\n"]);
      const [cut] = readdirSync(folder).filter((name) => name.startsWith("two@"));
      truncateSync(`${folder}/${cut}`, 100);
      const restored = await weights("restore", folder, ...at);
      assertEquals(restored.code, 1);
      assertMatch(restored.output, /^one: restored\ntwo: not restored: .*two@/);
      for (
        const [args, why] of [[["offload", "one"], /--to host/], [["wake"], /a name/], [
          ["wake", "x"],
          /Nothing/,
        ]] as const
      ) {
        const refused = await weights(...args, ...at);
        assertMatch(refused.errors, why);
      }
    }),
);

test(
  "a store serves what was saved, names what is cut, and takes its limits",
  { skip },
  () =>
    withStore(async ({ store, file, folder, cuda }) => {
      for (const name of ["one", "two"]) await weights("publish", file, "--name", name, "--store", store);
      await weights("save", folder, "--store", store);
      const [cut] = readdirSync(folder).filter((name) => name.startsWith("two@"));
      truncateSync(`${folder}/${cut}`, 100);
      const path = `${folder}/next`;
      const more = ["--evict-to", "host", "--host", "1MiB", "--driver", "software"];
      const serving = startPoolpass("store", path, "--restore", folder, ...more);
      {
        await using client = await StoreClient.connect(cuda, path, { wait: true });
        assertEquals(serving.output, `Serving at ${path}\n`);
        assertMatch(serving.errors, /^two: not restored: .*two@.*\n$/);
        assertEquals((await client.entries()).map(({ name, place }) => [name, place.startsWith(folder)]), [[
          "one",
          true,
        ]]);
        assertEquals((await weights("wake", "one", "--store", path)).code, 0);
        const refused = await weights("offload", "one", "--to", "host", "--timeout", "0.01", "--store", path);
        assertMatch(refused.errors, /the limit is 1048576 bytes of host memory/);
      }
      serving.interrupt();
      assertEquals((await serving.ended).code, 0);
      for (
        const [args, why] of [
          [["--evict-to", "disk"], /--evict-to takes host, and not "disk"/],
          [["--host", "much"], /--host takes a size/],
          [["--restore", `${folder}/none`], /none/],
        ] as const
      ) {
        const refused = await poolpass("store", path, ...args, "--driver", "software");
        assertMatch(refused.errors, why);
      }
      const late = await weights("offload", "one", "--to", "host", "--timeout", "soon", "--store", store);
      assertMatch(late.errors, /--timeout takes seconds, and "soon" was given/);
    }),
);

test("all ranks of a name are moved, woken and verified", { skip }, () =>
  withStore(async ({ store, file, cuda }) => {
    await using client = await StoreClient.connect(cuda, store);
    const [{ digest }] = await Promise.all([0, 1].map(async (rank) => {
      await using held = await publishWeights(client, "both", file, { rank: [rank, 2] });
      return { digest: held.digest! };
    })) as [{ digest: string }];
    const at = ["--store", store];
    const offloaded = await weights("offload", "both", "--to", "host", ...at);
    const said = [0, 1].map((rank) => `both \\(rank ${rank} of 2\\): [0-9.]+ B in`);
    assertMatch(offloaded.output, new RegExp(`^${said.map((text) => `${text} host memory\n`).join("")}$`));
    assertMatch((await weights("wake", "both", ...at)).output, new RegExp(`^${said.join(".*\n")}.*\n$`));
    const verified = await weights("verify", `both@${digest.slice(0, 8)}`, ...at);
    const lines = [0, 1].map((rank) => `both@${digest} (rank ${rank} of 2): as published\n`);
    assertEquals([verified.code, verified.output], [0, lines.join("")]);
    assertMatch((await weights("list", ...at)).output, / 1 of 2 /);
  }));
