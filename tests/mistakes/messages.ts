import { readFileSync } from "node:fs";

/** What comes before a message that the JavaScript runtime has worded: each runtime words it differently. */
export const runtimesWords = "worded by the runtime:";

const recorded = new URL("messages.md", import.meta.url);

/** Returns what the users see of each case, by the case's heading; of messages that runtimes word, only their kind. */
export function readMessages(file: string | URL = recorded): Map<string, Map<string, string>> {
  const areas = new Map<string, Map<string, string>>();
  for (const section of readFileSync(file, "utf8").split(/^## /m).slice(1)) {
    const [title, ...cases] = section.split(/^### /m);
    areas.set(title!.trim(), new Map(cases.map((text) => [text.slice(0, text.indexOf("\n")), withoutWords(text)])));
  }
  return areas;
}

function withoutWords(text: string): string {
  return text.replaceAll(/worded by the runtime: .*/g, runtimesWords).trim();
}
