/**
 * Prints an object of every public class by the runtime's own `console.log`, each after what it must print as.
 *
 * @module
 */
import { visitObjects } from "../objects/printed_objects.ts";

await visitObjects((object, text) => {
  console.log(text);
  console.log(object);
});
