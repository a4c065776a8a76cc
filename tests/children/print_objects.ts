/**
 * Prints an object of every public class with the runtime's own `console.log`, each after its expected output.
 *
 * @module
 */
import { visitObjects } from "../objects/printed_objects.ts";

await visitObjects((object, text) => {
  console.log(text);
  console.log(object);
});
