/**
 * Reports as annotations of GitHub Actions, which shows them at the lines of a change.
 *
 * @see https://docs.github.com/actions/reference/workflow-commands-for-github-actions
 * @module
 */
import { placeOf } from "./places.ts";
import type { SanitizerReport } from "./sanitizer_report.ts";

/**
 * The command that annotates the line where the later operation was called.
 *
 * @param workspace the folder of the repository, to which GitHub takes paths to be relative
 */
export function annotationOf(report: SanitizerReport, workspace: string | undefined): string {
  const place = placeOf(report);
  const properties = Object.entries({
    // What comes from the network is no file of the repository.
    ...place === undefined || /^\w+:\/\//.test(place.file)
      ? {}
      : { file: relativeTo(workspace, place.file), line: `${place.line}`, col: place.column?.toString() },
    title: `poolpass sanitizer: ${report.kind}`,
  }).filter(([, value]) => value !== undefined);
  const list = properties.map(([name, value]) => `${name}=${escapedProperty(value!)}`).join(",");
  return `::error ${list}::${escapedMessage(report.message)}`;
}

function relativeTo(workspace: string | undefined, file: string): string {
  if (workspace === undefined || workspace === "") return file;
  const folder = workspace.endsWith("/") ? workspace : `${workspace}/`;
  return file.startsWith(folder) ? file.slice(folder.length) : file;
}

function escapedMessage(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

function escapedProperty(text: string): string {
  return escapedMessage(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}
