import { importTests } from "../../support/import_tests.ts";

// Deno loads the library anew for each file: all of these in one take half the time of many.
await importTests(new URL("../../objects/graphs/", import.meta.url));
