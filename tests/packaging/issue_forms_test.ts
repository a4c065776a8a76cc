import { assert, assertEquals } from "@std/assert";
import { parse } from "@std/yaml";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "../support/test.ts";

const root = new URL("../../", import.meta.url);
const folder = ".github/ISSUE_TEMPLATE/";

interface Form {
  readonly name: string;
  readonly description: string;
  readonly labels: readonly string[];
  readonly body: readonly {
    readonly type: string;
    readonly id?: string;
    readonly attributes: { readonly label?: string; readonly value?: string };
  }[];
}

const forms = readdirSync(new URL(folder, root)).filter((name) => name !== "config.yml").sort()
  .map((name) => ({ name, form: parse(readFileSync(new URL(folder + name, root), "utf8")) as Form }));

test("the issue forms are YAML with the fields that GitHub requires", () => {
  assertEquals(forms.map(({ name }) => name), ["1_defect.yml", "2_question.yml", "3_ptx_instruction.yml"]);
  for (const { name, form } of forms) {
    assert([form.name, form.description].every((text) => text.length > 3) && form.labels.length === 1, name);
    const fields = form.body.filter(({ type }) => type !== "markdown");
    assert(fields.every(({ type }) => ["textarea", "input"].includes(type)), name);
    assert(fields.every(({ attributes }) => attributes.label !== undefined), name);
    assertEquals(new Set(fields.map(({ id }) => id)).size, fields.length, name);
    const notes = form.body.filter(({ type }) => type === "markdown");
    assert(notes.every(({ attributes }) => attributes.value !== undefined), name);
  }
});

test("a report of a defect has the output of poolpass doctor, and nobody reports a vulnerability in an issue", () => {
  const { required } = JSON.parse(JSON.stringify(forms[0]!.form.body.find(({ id }) => id === "doctor"))).validations;
  assertEquals(required, true);
  const config = parse(readFileSync(new URL(`${folder}config.yml`, root), "utf8")) as Record<string, unknown>;
  assertEquals(config.blank_issues_enabled, false);
  assert(JSON.stringify(config.contact_links).includes("/security/advisories/new"));
});
