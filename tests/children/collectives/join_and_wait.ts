/**
 * Joins a communicator of a library that stands in for NCCL, prints "joined", and waits to be killed. Arguments: the path
 * of the library, the id in hexadecimal, the rank, and the number of ranks.
 *
 * @module
 */
import process from "node:process";
import { openNccl } from "../../../ffi/nccl/load_nccl.ts";

const [path, id, rank, size] = process.argv.slice(2) as [string, string, string, string];
openNccl(path, () => {}).commInitRank(0, { id: Uint8Array.fromHex(id), rank: Number(rank), size: Number(size) });
console.log("joined");
setInterval(() => {}, 1000);
