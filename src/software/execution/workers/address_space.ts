/**
 * Gives a worker thread the addresses of the thread that started it. Must be evaluated before any module that uses
 * addresses.
 *
 * @module
 */
import { sharedAmongCopies } from "../../../support/version.ts";
import { workerThreads } from "./messages.ts";

const { addressSpace } = workerThreads()!.workerData;
sharedAmongCopies("addressSpaces", () => ({ taken: addressSpace }));
