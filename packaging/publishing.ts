/**
 * Where the project is, and how the packages are published. `.github/workflows/publish.yml` runs these commands, each in
 * the folder of its package, and `deno task package:try` runs them with `--dry-run`.
 *
 * @module
 */

/** The project's repository. To move it, change this line, and then all that `tests/packaging` reports. */
export const repository: string = "https://github.com/poolpass/poolpass";

/** What `package.json` says of the repository. npm compares it with the workflow that publishes. */
export const repositoryFields: Readonly<Record<string, unknown>> = {
  repository: { type: "git", url: `git+${repository}.git` },
  homepage: `${repository}#readme`,
  bugs: { url: `${repository}/issues` },
};

/** The command that publishes each package, in the folder in which the package was built. */
export const publishCommands = {
  jsr: ["deno", "publish"],
  npm: ["npm", "publish", "--provenance", "--access", "public"],
} as const;
