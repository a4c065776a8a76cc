/**
 * Builds the documentation site into `dist/docs/`: README.md as the first page, then the pages that `docs/README.md`
 * lists, in its order and below its headings, and the reference of every module that the packages export:
 *
 *     deno task docs
 *
 * TypeDoc renders all of it, and writes the index that the site's search reads. The site needs no server: a browser opens
 * it from the disk, too. Exits with status 1 if TypeDoc warns, such as of a link that leads nowhere.
 *
 * `deno.lock` in this folder pins TypeDoc and what it imports. To take another version, change it in `generator`, and run
 * the command of the task without `--frozen`.
 *
 * @module
 */
import { fileURLToPath, pathToFileURL } from "node:url";
import { repository } from "../publishing.ts";
import { answerHelp } from "../../tests/support/program_help.ts";

/** Not a literal where it is imported: Deno would download it for whoever imports this module, or checks its types. */
const generator = "npm:typedoc@0.28.20";

const root = new URL("../../", import.meta.url);

/** What TypeDoc calls a reflection, a page or a declaration, as far as this module needs it. */
interface Reflection {
  name: string;
  comment?: { readonly blockTags: unknown[] };
  sources?: readonly { readonly fileName: string }[];
  readonly kind: number;
  readonly frontmatter: Record<string, string>;
  readonly children: readonly Reflection[];
  readonly project: { readonly files: { getReflectionPath(page: Reflection): string } };
}

/** A piece of the text of a page. If it is a link to a file of the repository, it has the number of the file. */
interface Part {
  readonly kind: string;
  readonly text: string;
  readonly target?: number;
}

/** A piece of Markdown, as markdown-it parses it for TypeDoc. */
interface Token {
  readonly type: string;
  readonly content: string;
  children: Token[] | null;
}

/**
 * Returns the paths of the pages of the site after the first one, each with the heading below which `docs/README.md` lists
 * it. That page itself, and those below its first heading, have the group "none": TypeDoc's navigation shows no heading.
 */
export function pagesOf(index: string): Map<string, string> {
  const pages = new Map<string, string>();
  for (const [order, section] of index.split(/^## /m).slice(1).entries()) {
    const group = order === 0 ? "none" : section.split("\n", 1)[0]!;
    const links = section.matchAll(/^\| \[[^\]]*\]\(([^)]*)\)/gm);
    for (const [, to] of links) pages.set(pathOf(new URL(to!, new URL("docs/", root))), group);
    if (order === 0) pages.set("docs/README.md", group);
  }
  return pages;
}

/** Returns the names that `mod.ts` exports, each with the title of its section: the beginning of the comment above it. */
export function sectionsOf(source: string): Map<string, string> {
  const sections = new Map<string, string>();
  for (const section of source.split(/^\/\/ /m).slice(1)) {
    const [title] = /^.*?(?=, also in|:)/.exec(section)!;
    for (const [, names] of section.matchAll(/^export (?:type )?\{([^}]*)\}/gm)) {
      for (const [name] of names!.matchAll(/(?!type )\b\w+/g)) sections.set(name, title);
    }
  }
  return sections;
}

/** Builds the site into a folder, which has no other files afterwards. */
export async function buildSite(folder: URL): Promise<void> {
  const { Application, Converter, KindRouter, Models, Slugger, TSConfigReader, TypeDocReader } = await import(
    generator
  );
  const modules: Record<string, string> = JSON.parse(read("deno.json")).exports;
  const [pages, sections] = [pagesOf(read("docs/README.md")), sectionsOf(read("mod.ts"))];
  const reference = "API reference";
  const app = await Application.bootstrap({
    options: absolute("packaging/site/typedoc.jsonc"),
    out: fileURLToPath(folder),
    projectDocuments: [...pages.keys()].map(absolute),
    entryPoints: Object.values(modules).map(absolute),
    navigationLinks: { GitHub: repository },
    sourceLinkTemplate: `${repository}/blob/main/{path}#L{line}`,
    router: "repository",
    groupOrder: [...new Set(pages.values()), reference],
    categoryOrder: [...new Set(sections.values())],
    markdownItLoader: countCodeInHeadings,
  }, [new TypeDocReader(), new TSConfigReader()]);

  app.converter.on(Converter.EVENT_CREATE_DOCUMENT, (_: unknown, page: Reflection) => {
    page.name = headingsOf(read(pageOf(page)))[0]!.heading;
    page.frontmatter.group = pages.get(pageOf(page))!;
  });
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }: { project: Reflection }) => {
    const tag = (reflection: Reflection, name: string, text: string) => {
      reflection.comment ??= new Models.Comment();
      reflection.comment!.blockTags.push(new Models.CommentTag(name, [{ kind: "text", text }]));
    };
    for (const module of project.children) {
      const [specifier, path] = Object.entries(modules).find(([, path]) => path === `./${module.name}.ts`)!;
      if (path.startsWith("./kernels/")) {
        // The documentation of a kernel is the comment at the beginning of its source, where examples are indented.
        const [comment] = /^(?:\/\/.*\n)*/.exec(read(path.replace(/\.ts$/, ".cu")))!;
        const text = comment.replaceAll(/^\/\/ ?/gm, "").replaceAll(/(?:^ .*\n)+/gm, "\n```text\n$&```\n");
        module.comment = new Models.Comment([{ kind: "text", text }]);
      }
      if (specifier === ".") {
        for (const child of module.children) tag(child, "@category", sections.get(child.name)!);
      }
      module.name = specifier.replace(".", "poolpass");
      tag(module, "@group", reference);
    }
  });

  /** Gives pages the paths that they have in the repository, and adds their headings to what the search finds. */
  class RepositoryRouter extends KindRouter {
    getIdealBaseName(reflection: Reflection): string {
      if (reflection.kind !== Models.ReflectionKind.Document) return super.getIdealBaseName(reflection);
      return pageOf(reflection).replace(/\.md$/, "");
    }

    buildPages(project: Reflection): unknown[] {
      const pages = super.buildPages(project);
      this.#addHeadings(project, { path: "README.md", url: "index.html" });
      return pages;
    }

    buildChildPages(reflection: Reflection, pages: unknown[]): void {
      super.buildChildPages(reflection, pages);
      if (reflection.kind !== Models.ReflectionKind.Document) return;
      this.#addHeadings(reflection, { path: pageOf(reflection), url: this.getFullUrl(reflection) });
    }

    #addHeadings(page: Reflection, { path, url }: { path: string; url: string }): void {
      const slugger = new Slugger({ lowercase: true });
      for (const [index, { heading, text }] of headingsOf(read(path)).entries()) {
        const slug = slugger.slug(heading);
        if (index === 0) continue; // the page itself is found
        const section = new Models.DocumentReflection(heading, page, [{ kind: "text", text }], {});
        this.fullUrls.set(section, `${url}#${slug}`);
      }
    }
  }
  app.renderer.defineRouter("repository", RepositoryRouter);

  const project = await app.convert();
  for (const reflection of Object.values<Reflection>(project.reflections)) {
    // What TypeScript's own files declare, such as the constructor of an error, has no source in the repository.
    if (reflection.sources?.some(({ fileName }) => fileName.startsWith("../"))) delete reflection.sources;
  }
  const first: Part[] = project.readme;
  Object.assign(first[0]!, { text: first[0]!.text.replace(/^# .*\n/, "") }); // TypeDoc writes a title above it
  const parts: Part[] = [...first, ...project.documents.flatMap(({ content }: { content: Part[] }) => content)];
  for (const part of parts.filter(({ target }) => target !== undefined)) {
    // TypeDoc would copy a file that is not a page.
    const path = pathOf(pathToFileURL(project.files.resolvePath(part.target)));
    if (path === "README.md" || pages.has(path) || /\.(png|svg)$/.test(path)) continue;
    Object.assign(part, { kind: "text", text: `${repository}/blob/main/${path}` });
  }
  await app.generateDocs(project, fileURLToPath(folder));
  replaceSearch(new URL("assets/main.js", folder));
  if (app.logger.hasErrors() || app.logger.hasWarnings()) throw new Error("Cannot build the site: see the warnings");
}

/** Makes code a part of what TypeDoc calls the text of a heading, and so of its anchor, as GitHub does. */
function countCodeInHeadings(
  parser: { core: { ruler: { push(name: string, rule: (state: { tokens: Token[] }) => void): void } } },
): void {
  parser.core.ruler.push("code_in_headings", ({ tokens }) => {
    const texts = tokens.filter((_, index) => tokens[index - 1]?.type === "heading_open");
    for (const child of texts.flatMap(({ children }) => children!)) {
      if (child.type === "code_inline") child.children = [{ type: "text", content: child.content, children: null }];
    }
  });
}

/** Makes TypeDoc's script call the function of `search.js`, and write "Guide › Events" instead of "Guide.Events". */
function replaceSearch(script: URL): void {
  let text = Deno.readTextFileSync(script);
  for (const [old, replacement] of [["r.index.search(a)", "searchSite(r.index,i)"], [".</span>", " › </span>"]]) {
    if (text.split(old!).length !== 2) throw new Error(`Cannot replace TypeDoc's search: it has no ${old}`);
    text = text.replace(old!, replacement!);
  }
  Deno.writeTextFileSync(script, text);
}

/** Returns the headings of a page as plain text, each with the Markdown up to the next one. */
function headingsOf(page: string): { heading: string; text: string }[] {
  // Lines of code that begin with # are no headings.
  const matches = [...page.matchAll(/^```[^]*?^```|^#+ (.*)$/gm)].filter(([, heading]) => heading !== undefined);
  return matches.map((match, index) => ({
    heading: match[1]!.replaceAll(/\[([^\]]*)\]\([^)]*\)|[`*]/g, "$1"),
    text: page.slice(match.index + match[0].length, matches[index + 1]?.index),
  }));
}

function pageOf(page: Reflection): string {
  return pathOf(pathToFileURL(page.project.files.getReflectionPath(page)));
}

function pathOf(url: URL): string {
  return url.href.slice(root.href.length);
}

function absolute(path: string): string {
  return fileURLToPath(new URL(path, root));
}

function read(path: string): string {
  return Deno.readTextFileSync(new URL(path, root));
}

if (import.meta.main) {
  answerHelp(import.meta.url);
  const folder = new URL("dist/docs/", root);
  await buildSite(folder);
  console.log(`Built ${fileURLToPath(new URL("index.html", folder))}`);
}
