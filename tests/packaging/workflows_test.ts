import { assert, assertEquals, assertMatch } from "@std/assert";
import { parse } from "@std/yaml";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { publishCommands } from "../../packaging/publishing.ts";
import { problemOf } from "../docs/commands.ts";
import { test } from "../support/test.ts";

const root = new URL("../../", import.meta.url);
const folder = ".github/workflows/";

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly "working-directory"?: string;
}

interface Job {
  readonly uses?: string;
  readonly "runs-on"?: string;
  readonly "timeout-minutes"?: number;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly steps?: readonly Step[];
  readonly needs?: string;
}

interface Workflow {
  readonly name: string;
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const paths = readdirSync(new URL(folder, root)).map((name) => folder + name).sort();
const workflows = new Map(paths.map((path) => [path, parse(read(path)) as Workflow]));
const jobs = [...workflows].flatMap(([path, workflow]) =>
  Object.entries(workflow.jobs).map(([name, job]) => ({ name: `${path}: ${name}`, job }))
);

/** The steps of all jobs that run commands. */
const commands = jobs.flatMap(({ name, job }) =>
  (job.steps ?? []).filter(({ run }) => run !== undefined)
    .map((step) => ({ name, command: step.run!, folder: step["working-directory"] }))
);

test("the workflows are YAML, and say when they run and what their jobs are", () => {
  assert(paths.includes(`${folder}ci.yml`) && paths.includes(`${folder}publish.yml`), paths.join(" "));
  for (const [path, { name, on, jobs }] of workflows) {
    assert(name !== undefined && Object.keys(on).length > 0 && Object.keys(jobs).length > 0, path);
    for (const [name, job] of Object.entries(jobs)) {
      if (job.uses !== undefined) continue;
      assertEquals(
        [job["runs-on"], job["timeout-minutes"]! > 0, job.steps!.length > 0],
        ["ubuntu-latest", true, true],
        name,
      );
    }
  }
});

test("a workflow may only read the repository, and a job that publishes only prove who it is", () => {
  for (const [path, { permissions }] of workflows) assertEquals(permissions, { contents: "read" }, path);
  const further = jobs.filter(({ job }) => job.permissions !== undefined);
  assert(further.length >= 2);
  for (const { name, job } of further) {
    const { contents = "read", "id-token": idToken, pages = "write", ...others } = job.permissions!;
    assertEquals([contents, idToken, pages, others], ["read", "write", "write", {}], name);
  }
});

test("every action is pinned to a commit, with its version beside it, and every file that a workflow uses exists", () => {
  const pins = new Map<string, Set<string>>();
  for (const path of paths) {
    for (const [, used] of read(path).matchAll(/\buses: (.*)$/gm)) {
      if (used!.startsWith("./")) {
        assert(existsSync(new URL(used!, root)), `${path} uses ${used}`);
        continue;
      }
      const pin = /^([\w-]+\/[\w-]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)$/.exec(used!);
      if (pin === null) throw new Error(`${path} uses ${used}`);
      const [, action, commit] = pin;
      pins.set(action!, (pins.get(action!) ?? new Set()).add(commit!));
    }
  }
  assert(pins.size >= 2);
  for (const [action, commits] of pins) assertEquals(commits.size, 1, action);
});

test("every command of a workflow names tasks and files that exist, and the version of Deno that .ci/run takes", () => {
  assert(commands.length >= 6);
  const version = /\bdeno@([\d.]+)/.exec(read(".ci/steps.sh"))![1];
  for (const { name, command, folder } of commands) {
    assertEquals(problemOf(command), undefined, name);
    for (const [, named] of command.matchAll(/\bdeno@(\S+)/g)) assertEquals(named, version, name);
    assertEquals(/(?<!npx -y )\bdeno (?:task|run|publish)\b/.test(command), false, `${name} has no other Deno`);
    if (folder !== undefined) assertMatch(folder, /^dist\//, name);
    if (command.startsWith(".ci/")) assertEquals(statSync(new URL(command, root)).mode & 0o111, 0o111, command);
  }
  assert(commands.some(({ name, command }) => name.startsWith(`${folder}ci.yml`) && command === ".ci/run"));
});

test("the packages are published by the commands that deno task package:try has tried, once the tests have passed", () => {
  const { on, jobs } = workflows.get(`${folder}publish.yml`)!;
  assertEquals(on, { push: { tags: ["v*"] } });
  assertEquals(jobs.test, { uses: "./.github/workflows/ci.yml" });
  for (const [registry, command] of Object.entries(publishCommands)) {
    const { steps, needs } = jobs[registry]!;
    const run = steps!.filter((step) => step.run !== undefined);
    const withVersion = (text: string) => text.replace(/^deno\b/, /npx -y deno@\S+/.exec(run[1]!.run!)![0]);
    assertEquals(run.slice(1).map((step) => [step.run, step["working-directory"]]), [
      [withVersion("deno task package"), undefined],
      [withVersion(command.join(" ")), `dist/${registry}`],
    ]);
    assertMatch(run[0]!.run!, /\$GITHUB_REF_NAME.*\.version deno\.json/, "the tag is compared with the version");
    assertEquals(needs, "test");
  }
});

function read(path: string): string {
  return readFileSync(new URL(path, root), "utf8");
}
