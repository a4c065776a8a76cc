/** Rejects in a range, and handles that nowhere. */
import { open } from "../../../mod.ts";

const cuda = open();
cuda.range("failing", () => Promise.reject(new Error("Nobody handles this")));
