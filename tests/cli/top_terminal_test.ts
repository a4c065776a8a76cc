/**
 * `poolpass top` in a terminal, which tmux emulates.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { execFileSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { patience, type SharedFrames, sharedFramesTest } from "./shared_frames.ts";
import type { TestOptions } from "../support/test.ts";

const skip = hasTmux() ? undefined : "there is no tmux";
const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const crash = fileURLToPath(new URL("../children/cli/crashing_screen.ts", import.meta.url));

/** Prints whether the terminal passes on whole lines, and shows what is typed. */
const settings = "stty -a | tr ' ' '\\n' | grep -x -e '-*icanon' -e '-*echo'";

function hasTmux(): boolean {
  try {
    execFileSync("tmux", ["-V"]);
    return true;
  } catch {
    return false;
  }
}

/** A terminal with a shell in it. */
class TmuxTerminal implements Disposable {
  readonly #socket: string;

  constructor(folder: string) {
    this.#socket = `${folder}/tmux`;
    this.#tmux("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "14", "env PS1='$ ' sh");
  }

  /** What it shows. */
  get text(): string {
    return this.#tmux("capture-pane", "-p");
  }

  /** Types text, or presses a key such as "Enter" or "C-c". */
  type(...keys: string[]): void {
    this.#tmux("send-keys", ...keys);
  }

  resize(columns: number, rows: number): void {
    this.#tmux("resize-window", "-x", String(columns), "-y", String(rows));
  }

  /** Waits until it shows something. */
  async shows(pattern: RegExp): Promise<string> {
    const since = performance.now();
    for (;;) {
      const { text } = this;
      if (pattern.test(text)) return text;
      if (performance.now() - since > patience) throw new Error(`It does not show ${pattern}:\n${text}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Whether the alternate screen is shown, and whether the cursor is hidden. */
  get modes(): string {
    return this.#tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}").trim();
  }

  [Symbol.dispose](): void {
    this.#tmux("kill-server");
  }

  #tmux(...args: string[]): string {
    return execFileSync("tmux", ["-S", this.#socket, ...args], {
      encoding: "utf8",
      env: { ...process.env, TERM: "xterm-256color", LC_ALL: "C.UTF-8" },
    });
  }
}

/** The command that runs a script in the runtime of the test. */
function commandFor(script: string, ...args: string[]): string {
  const deno = (globalThis as { Deno?: { execPath(): string } }).Deno;
  const runtime = deno === undefined ? [process.execPath] : [deno.execPath(), "run", "--no-check", "-A"];
  return [...runtime, script, ...args].join(" ");
}

function terminalTest(
  name: string,
  body: (frames: SharedFrames & { terminal: TmuxTerminal; folder: string }) => Promise<void>,
  options: TestOptions = {},
): void {
  sharedFramesTest(name, async (frames) => {
    const folder = frames.path.replace(/\/[^/]*$/, "");
    using terminal = new TmuxTerminal(folder);
    await terminal.shows(/\$/);
    await body({ ...frames, terminal, folder });
  }, { ...options, skip });
}

/** Starts top, and prints its exit code and the terminal's settings when it has ended. */
function startTop(terminal: TmuxTerminal, path: string): void {
  const command = commandFor(main, "top", path, "--interval", "0.2");
  terminal.type(`clear; NODE_NO_WARNINGS=1 ${command}; echo "code $?"; ${settings}`, "Enter");
}

/** Fails unless the terminal is as it was before top. */
async function assertRestored(terminal: TmuxTerminal, code: string): Promise<void> {
  const text = await terminal.shows(/code \w+\s+-*icanon\s+-*echo/);
  assertMatch(text, new RegExp(`code ${code}\\s+icanon\\s+echo`));
  assertEquals(terminal.modes, "0 1 1");
}

terminalTest("top shows rates on the alternate screen, follows keys and the size, and restores the terminal", async (
  { terminal, path, start },
) => {
  await start("hold");
  await start("consume");
  startTop(terminal, path);
  const text = await terminal.shows(/^frames +channel +4\.0 MiB +\d+ s ago +[\d.]+ +[\d.]+ MiB +0\.0 +\d+$/m);
  assertEquals(terminal.modes, "1 0 0");
  assertMatch(
    text,
    /^Exporter at \S+: process \d+, poolpass \S+, since \d+ s\n4 offers, 8\.5 MiB; 2 importers, 1 operator/,
  );
  assertMatch(text, /^[\d.]+ frames\/s, [\d.]+ MiB\/s; [\d.]+ dropped\/s; largest lag \d+$/m);
  terminal.type("n");
  await terminal.shows(/^name.*\nbias .*\ncamera /m);
  terminal.type("h");
  await terminal.shows(/^weights .* 1 holder$/m);
  terminal.resize(60, 9);
  const small = await terminal.shows(/lines 1 to 3 of 4 {2}q quit/);
  assert(small.split("\n").every((line) => line.length <= 60));
  terminal.type("PageDown");
  await terminal.shows(/lines 2 to 4 of 4/);
  terminal.type("q");
  await assertRestored(terminal, "0");
});

terminalTest("top says that the exporter has died, and shows the next one", async (frames) => {
  const { terminal, path, exporter, start } = frames;
  startTop(terminal, path);
  await terminal.shows(/^frames +channel/m);
  exporter.kill("SIGKILL");
  await terminal.shows(/^Trying again: Cannot /m);
  assertMatch(terminal.text, /^frames +channel/m, "the last sample is still shown");
  const { pid } = await start("export");
  assertStringIncludes(await terminal.shows(new RegExp(`process ${pid},`)), "4 offers");
  assert(!terminal.text.includes("Trying again"));
  terminal.type("C-c");
  await assertRestored(terminal, "0");
}, { long: true });

for (const signal of ["TERM", "HUP", "INT"]) {
  terminalTest(`top restores the terminal when SIG${signal} ends it`, async ({ terminal, path }) => {
    startTop(terminal, path);
    await terminal.shows(/^frames +channel/m);
    const pid = execFileSync("pgrep", ["-f", `${main} top ${path}`], { encoding: "utf8" }).trim().split("\n").at(-1)!;
    process.kill(Number(pid), `SIG${signal}`);
    await assertRestored(terminal, "0");
  }, { long: signal !== "TERM" });
}

terminalTest("top restores the terminal when it is stopped, and goes on", async ({ terminal, path }) => {
  // An interactive shell, which starts jobs in groups of their own.
  terminal.type("env PS1='# ' bash --norc", "Enter");
  await terminal.shows(/^#/m);
  startTop(terminal, path);
  await terminal.shows(/^frames +channel/m);
  terminal.type("C-z");
  await terminal.shows(/Stopped/);
  assertEquals(terminal.modes, "0 1 1");
  terminal.type("fg", "Enter");
  await terminal.shows(/^frames +channel/m);
  assertEquals(terminal.modes, "1 0 0");
  terminal.type("q");
  await terminal.shows(/^#/m);
  assertEquals(terminal.modes, "0 1 1");
}, { long: true });

terminalTest("an error that nobody catches leaves the terminal as it was", async ({ terminal }) => {
  for (const kind of ["throw", "reject"]) {
    terminal.type("clear", "Enter");
    const command = commandFor(crash, kind);
    terminal.type(
      `NODE_NO_WARNINGS=1 ${command} 2>&1 | grep -c Wrong; ${settings}`,
      "Enter",
    );
    await terminal.shows(/^(\$ )?[1-9]\s+icanon\s+echo/m);
    assertEquals(terminal.modes, "0 1 1");
  }
}, { long: true });
