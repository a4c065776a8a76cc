import { readFileSync } from "node:fs";

/** Returns the commands of the tasks in deno.json, by name: some have a description beside them. */
export function taskCommands(): Readonly<Record<string, string>> {
  const { tasks } = JSON.parse(readFileSync(new URL("../../deno.json", import.meta.url), "utf8")) as {
    tasks: Record<string, string | { command: string }>;
  };
  return Object.fromEntries(
    Object.entries(tasks).map(([name, task]) => [name, typeof task === "string" ? task : task.command]),
  );
}
