import { importTests, smallFoldersOfMore } from "../../support/import_tests.ts";

// The folders with few tests.
for (const folder of smallFoldersOfMore) await importTests(new URL(`../../${folder}/`, import.meta.url));
