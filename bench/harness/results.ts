/**
 * Files of results.
 *
 * @module
 */

/** Formats a report as JSON: a line for each of its properties, and for each element of those that are arrays. */
export function formatReport(report: object): string {
  const lines = Object.entries(report).filter(([, value]) => value !== undefined).map(([name, value]) => {
    const text = Array.isArray(value) && value.length > 0
      ? `[\n${value.map((element) => `    ${JSON.stringify(element)}`).join(",\n")}\n  ]`
      : JSON.stringify(value);
    return `  ${JSON.stringify(name)}: ${text}`;
  });
  return `{\n${lines.join(",\n")}\n}\n`;
}

/**
 * Writes a report to a folder as NAME.json, or as NAME-2.json if there is one already, and so on: it never overwrites the
 * files of earlier runs. Prints the file's path, and resolves to it.
 */
export async function writeReport(report: object, folder: string, name: string): Promise<string> {
  await Deno.mkdir(folder, { recursive: true });
  for (let run = 1;; run++) {
    const file = `${folder}/${name}${run === 1 ? "" : `-${run}`}.json`;
    try {
      await Deno.writeTextFile(file, formatReport(report), { createNew: true });
    } catch (error) {
      if (error instanceof Deno.errors.AlreadyExists) continue;
      throw error;
    }
    console.log(`\nwritten to ${file}`);
    return file;
  }
}
