import { importTests, smallFolders } from "../support/import_tests.ts";

// The files beside the folders, and the folders with few tests.
await importTests(new URL("../", import.meta.url), { recursive: false });
for (const folder of smallFolders) await importTests(new URL(`../${folder}/`, import.meta.url));
