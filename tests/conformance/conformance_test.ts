import { assert, assertEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { driversUnderTest, type DriverUnderTest } from "../support/drivers.ts";
import { differences } from "./differences.ts";
import { type Equipment, equipmentOf, reasonNotToRun } from "./needs.ts";
import { documentedOutcome, isSame, type Outcome } from "./outcome.ts";
import { readRecording } from "./recording.ts";
import { RowsAhead } from "./rows_ahead.ts";
import { runInOwnProcess } from "./run_in_own_process.ts";
import type { Situation } from "./situation.ts";
import { fileOf, files, situations } from "./table.ts";
import { isLong, test } from "../support/test.ts";

const fewestRows = 120;

/**
 * Files whose rows start a process each. On the software device, without POOLPASS_LONG=1, one row in six of these runs,
 * and the rows of every second other file: the rows of a file share a process, and starting it takes most of their time.
 */
const filesWithPeers = ["ipc_events", "ipc_memory", "pools_between_processes", "pool_access"];
const step = 6;
/**
 * Rows of several files that share a process where few rows of each run. Rows free nothing, and the software devices of a
 * process share 4 GiB: 60 rows of all of them are too many.
 */
const rowsOfSeveralFiles = 45;

const { answers } = readRecording();
const names = new Set(situations.map(({ name }) => name));

test("conformance: the table has enough rows, with unique names", () => {
  assert(situations.length >= fewestRows, `${situations.length} rows`);
  assertEquals(situations.map(({ name }) => name).filter((name, index, all) => all.indexOf(name) !== index), []);
});

test("conformance: the table includes every file of rows", () => {
  const folder = new URL("situations/", import.meta.url);
  const found = readdirSync(folder).filter((file) =>
    /^export const situations/m.test(readFileSync(new URL(file, folder), "utf8"))
  );
  assertEquals(found.sort(), files.map((name) => `${name}.ts`).sort());
});

test("conformance: every recorded answer and difference belongs to a row", () => {
  assertEquals(Object.keys(answers).filter((name) => !names.has(name)), []);
  assertEquals(differences.map(({ situation }) => situation).filter((name) => !names.has(name)), []);
});

test("conformance: no recorded answer is a crash or a hang", () => {
  const unanswered = Object.keys(answers).filter((name) => "crash" in answers[name]! || "hang" in answers[name]!);
  assertEquals(unanswered, []);
});

test("conformance: no row with a recorded answer still has a documented one", () => {
  const both = situations.filter(({ name, documented }) => name in answers && documented !== undefined);
  assertEquals(both.map(({ name }) => name), []);
});

for (const driver of driversUnderTest) testOn(driver);

/** Declares a test for each row. Rows run ahead of their tests, several at once. */
function testOn(driver: DriverUnderTest): void {
  const equipment = driver.skip ? undefined : findEquipment(driver);
  const reasonToSkip = (situation: Situation) =>
    equipment === undefined ? driver.skip : reasonNotToRun(situation, equipment);
  const isLeftOut = (situation: Situation) => {
    if (driver.name !== "software") return false;
    const file = fileOf(situation);
    return filesWithPeers.includes(file) ? situations.indexOf(situation) % step > 0 : files.indexOf(file) % 2 > 0;
  };
  const isRun = (situation: Situation) => !reasonToSkip(situation) && (isLong || !isLeftOut(situation));
  const mixed = driver.name === "software" && !isLong;
  const together = mixed ? Math.min(driver.rowsTogether, rowsOfSeveralFiles) : driver.rowsTogether;
  const rows = new RowsAhead(situations.filter(isRun), driver.name, { together, mixed });
  for (const situation of situations) {
    const { name } = situation;
    const expected = expectedOutcome(situation, driver);
    const basis = answers[name] === undefined && expected !== undefined ? ", by documentation" : "";
    test(
      `conformance: ${name}${basis} [${driver.name}]`,
      { skip: reasonToSkip(situation), long: isLeftOut(situation) },
      async () => {
        let result = await rows.resultOf(situation);
        // The result must not depend on state that earlier rows left on its devices.
        if (driver.rowsShareDevices && expected !== undefined && !isSame(result, expected)) {
          result = await runInOwnProcess(situation, driver.name);
        }
        if (expected === undefined) throw new Error(`Not recorded; it gave ${JSON.stringify(result)}`);
        if (!isSame(result, expected)) assertEquals(result, expected);
      },
    );
  }
}

function expectedOutcome(situation: Situation, driver: DriverUnderTest): Outcome | undefined {
  const difference = differences.find((difference) =>
    difference.situation === situation.name && difference.driver === driver.name
  );
  return difference?.outcome ?? answers[situation.name] ?? documentedOutcome(situation);
}

function findEquipment(driver: DriverUnderTest): Equipment {
  const opened = driver.open();
  const equipment = equipmentOf(opened);
  opened.close();
  return equipment;
}
