import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { open } from "../../../src/open.ts";
import { Exporter } from "../../../src/sharing/exporter/exporter.ts";
import { Importer } from "../../../src/sharing/importer/importer.ts";
import { checkOfferName } from "../../../src/sharing/protocol/metadata.ts";
import { CompileError } from "../../../src/compile/compile_error.ts";
import { CudaError, SharingError } from "../../../src/support/errors.ts";
import { shown } from "../../../src/support/validation.ts";
import { disposedMeanwhile } from "../../../src/support/waiting/waiting.ts";
import { escapeControls } from "../../../src/support/printing.ts";
import { remainingLines, startScript } from "../../support/child_process.ts";
import { inFolder } from "../../support/folders.ts";
import { leakTest } from "../../support/resources.ts";
import { test } from "../../support/test.ts";
import { noPython, startHostile } from "./hostile_peers.ts";

/** What may not reach a terminal, but for the end of a line. */
// deno-lint-ignore no-control-regex
const controls = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/;
const beginning = "\x1b]0;owned\x07\r\n[exporter] all is well\u202e";
const escaped = "\\x1b]0;owned\\x07\\x0d\\x0a[exporter] all is well\\u202e";

function assertHarmless(text: string, what: string): void {
  assert(!controls.test(text), `${what} has control characters: ${JSON.stringify(text)}`);
  assert(!text.includes("\n[exporter]"), `${what} has a forged line: ${JSON.stringify(text)}`);
}

test("control characters are escaped, and everything else is not", () => {
  assertEquals(escapeControls(beginning), escaped);
  const harmless = "é 漢字 😀 \u200f \u2027 \u202f \u2065 \u206a ~ \u00a0 \\x1b";
  assertEquals(escapeControls(harmless), harmless);
  for (let code = 0; code < 0xd800; code++) {
    const character = String.fromCharCode(code);
    assertEquals(escapeControls(character) === character, !/[\n]/.test(character) && !controls.test(character));
  }
});

leakTest("an exporter's control characters reach no terminal", () =>
  inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    await using exporter = startHostile("painting_exporter.py", [`${folder}/painting`]);
    assertEquals(await exporter.nextLine() ?? await exporter.errors(), "ready");
    await using importer = await Importer.connect(cuda, `${folder}/painting`);
    const { value: offer } = await importer.offers().next();
    const { name } = offer!;
    assert(name.startsWith(beginning), "The name is as it was sent");
    assertEquals(offer!.metadata, name);
    assertStringIncludes(inspect(offer), escaped);
    assertHarmless(inspect(offer), "The printed offer");
    assertHarmless(inspect(importer), "The printed importer");
    const errors = [
      await assertRejects(() => offer!.map(), TypeError),
      await assertRejects(() => importer.channel(name), TypeError),
      await assertRejects(() => importer.offer(`${name}?`, { signal: AbortSignal.timeout(1) }), DOMException),
      assertThrows(() => checkOfferName(`${name}${"-".repeat(255)}`), RangeError),
      await assertRejects(() => Importer.connect(cuda, `${folder}/\x1b[2J\n[exporter]`), SharingError),
      await assertRejects(async () => {
        await importer[Symbol.asyncDispose]();
        await importer.offer(name);
      }, ReferenceError),
    ];
    for (const error of errors) {
      assertHarmless(error.message, error.message);
      assertHarmless(inspect(error).split("\n")[0]!, "The printed error");
    }
    exporter.kill("SIGKILL");
  }), { skip: noPython, warmUp });

leakTest("the text of a goodbye reaches no terminal", () =>
  inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    await using exporter = startHostile("painting_exporter.py", [`${folder}/painting`, "at once"]);
    assertEquals(await exporter.nextLine(), "ready");
    const importer = await Importer.connect(cuda, `${folder}/painting`);
    const error = await assertRejects(() => importer.offer("never"), SharingError);
    assertEquals(error.code, "internal-error");
    assertStringIncludes(error.message, "it ended the connection (internal-error): ");
    assertHarmless(error.message, "The error");
    await importer[Symbol.asyncDispose]();
    exporter.kill("SIGKILL");
  }), { skip: noPython, warmUp });

test("the errors of every kind that quote others escape what they quote", () => {
  const lines = `first\tline\n${beginning.replaceAll("\n", "")}`;
  for (
    const error of [
      new SharingError("internal-error", beginning),
      new CudaError(1, "cudaMalloc", lines),
      new CompileError(lines, { log: lines, file: beginning, line: 1 }),
      disposedMeanwhile(`wait for "${beginning}"`, "the importer"),
    ]
  ) {
    assertHarmless(error.message.replaceAll("\t", ""), error.name);
    assertStringIncludes(error.message, "\\x1b]0;owned\\x07");
  }
  assertStringIncludes(new CudaError(1, "cudaMalloc", lines).message, "first\tline\n");
  assertHarmless(shown(`${beginning}\x7f\x9b\u2028`), "A value of an option or a variable");
});

test(
  "what the commands and warnings quote of paths, names and variables reaches no terminal",
  { long: true },
  async () => {
    const shape = `${beginning.replaceAll("\r\n", "")}\x9b`;
    const at = fileURLToPath(new URL("../../../cli/main.ts", import.meta.url));
    const software = ["devices", "--driver", "software"];
    const answers = [
      await run(at, [shape]),
      await run(at, ["list", "/nowhere", shape]),
      await run(at, ["bind", `/tmp/${shape}.ptx`]),
      await run(at, ["doctor", `/tmp/${shape}`], { POOLPASS_DRIVER: "software" }),
      await run(at, software, { POOLPASS_SANITIZE: "1", POOLPASS_SANITIZE_SUPPRESS: `/dev/null/${shape}` }),
      await run(at, software, {
        "POOLPASS_DRIVER\x1b": "1",
        POOLPASS_CACHE: `/dev/null/${shape}`,
        POOLPASS_SANITIZE: "1",
        POOLPASS_SANITIZE_REPORT: `/dev/null/${shape}`,
      }),
    ];
    for (const [index, text] of answers.entries()) {
      assertHarmless(text, `Output ${index}`);
      assertStringIncludes(text, "owned", `Output ${index}`);
    }
    assertStringIncludes(answers.at(-1)!, "POOLPASS_DRIVER\\x1b");
  },
);

/** All that a program prints, in this runtime. */
async function run(path: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string> {
  await using child = startScript(path, args, { env, permissions: ["--allow-all"] });
  const lines = remainingLines(child);
  return [await child.errors(), ...await lines].join("\n");
}

test("the Python client and the example of an importer print no control characters", {
  skip: noPython,
  long: true,
}, () =>
  inFolder(async (folder) => {
    const pythonPackage = fileURLToPath(new URL("../../../python", import.meta.url));
    const client = fileURLToPath(new URL("../../../examples/python/poolpass_client.py", import.meta.url));
    for (const mode of ["", "at once"]) {
      await using exporter = startHostile("painting_exporter.py", [`${folder}/painting`, mode]);
      assertEquals(await exporter.nextLine(), "ready");
      const output = outputOf(
        "env",
        [
          `PYTHONPATH=${pythonPackage}`,
          ...["python3", client, "list", `${folder}/painting`, "--follow"].slice(0, mode === "" ? 4 : 5),
        ],
      );
      assertStringIncludes(output, "all is well");
      assertHarmless(output, "The Python client's output");
      exporter.kill("SIGKILL");
    }
    await using exporter = startHostile("painting_exporter.py", [`${folder}/painting`, "at once"]);
    assertEquals(await exporter.nextLine(), "ready");
    await using example = startScript("../examples/weights_importer.ts", [`${folder}/painting`], {
      env: { POOLPASS_DRIVER: "software" },
    });
    const errors = await example.errors();
    assertStringIncludes(errors, "all is well");
    assertHarmless(errors, "The example's output");
    exporter.kill("SIGKILL");
  }));

/** The standard output and standard error of a program, whether it succeeds or fails. */
function outputOf(program: string, args: readonly string[]): string {
  try {
    return execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    return stdout + stderr;
  }
}

function warmUp(): Promise<void> {
  return inFolder(async (folder) => {
    using cuda = open({ driver: "software" });
    await using exporter = Exporter.listen(`${folder}/exporter`);
    await using _importer = await Importer.connect(cuda, exporter.path);
  });
}
