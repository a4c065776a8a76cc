/** The board on which processes publish what they do, when its file has invalid content. */
import { assert, assertEquals } from "@std/assert";
import { closeSync, ftruncateSync, openSync, statSync, writeSync } from "node:fs";
import process from "node:process";
import { Board, type BoardReader, Bystander } from "../../src/sanitizer/processes/board.ts";
import { boardOfTest, withOwnBoard } from "../support/own_board.ts";
import { test } from "../support/test.ts";

const path = `/dev/shm/${boardOfTest}-${process.geteuid?.()}`;
const slots = 64;
const skip = process.platform !== "linux" && "the files are in /dev/shm";

/** Records its calls. */
class Listener implements BoardReader {
  readonly calls: string[] = [];
  onPeer = (): void => void this.calls.push("found");
  onRecordsLost = (): void => void this.calls.push("lost");
  onPeerGone = (): void => void this.calls.push("gone");
  onBystander = (): void => void this.calls.push("bystander");
  onRecord(_peer: unknown, text: string): void {
    this.calls.push(text);
  }
}

function readBy(board: Board): string[] {
  const listener = new Listener();
  board.read(listener);
  return [...new Set(listener.calls)];
}

function joined(): Board {
  const board = Board.join();
  if (!(board instanceof Board)) throw new Error("there is no place");
  return board;
}

function testOf(name: string, body: () => void): void {
  // deno-lint-ignore require-await
  test(name, { skip }, () => withOwnBoard(async () => body()));
}

/** Changes the file. */
function withFile(change: (file: number) => void): void {
  const file = openSync(path, "r+");
  change(file);
  closeSync(file);
}

testOf("a file of anything is used", () => {
  joined().leave();
  withFile((file) => writeSync(file, new Uint8Array(8192).fill(0xff), 0, 8192, 0));
  const [first, second] = [joined(), joined()];
  for (const board of [first, second]) readBy(board);
  first.append("hello", 1);
  assertEquals(readBy(second), ["hello"]);
  assertEquals(first.own.generation < Number.MAX_SAFE_INTEGER, true);
  assertEquals(second.holdsSlot(first.own), true);
  first.leave();
  assertEquals(second.holdsSlot(first.own), false);
  second.leave();
});

testOf("a file that was made shorter loses records, and nothing else", () => {
  const [first, second] = [joined(), joined()];
  first.append("one", 1);
  assertEquals(readBy(second), ["found", "one"]);
  withFile((file) => ftruncateSync(file, 0));
  readBy(second);
  first.append("two", 2);
  assert(readBy(second).includes("lost"));
  // It has rewritten its own entry.
  second.append("four", 4);
  first.append("three", 3);
  assertEquals(readBy(second), ["three"]);
  for (const board of [first, second]) board.leave();
});

testOf("processes that have no place keep the others from reports while they are there", () => {
  const boards = Array.from({ length: slots }, joined);
  const [first] = boards as [Board];
  readBy(first);
  assertEquals(readBy(first), []);
  const late = [Board.join(), Board.join()] as Bystander[];
  for (const each of late) assert(each instanceof Bystander);
  assertEquals(readBy(first), ["bystander"]);
  late[0]!.leave();
  assertEquals([readBy(first), first.hasBystander()], [["bystander"], true]);
  late[1]!.leave();
  assertEquals([readBy(first), readBy(first), first.hasBystander()], [["bystander"], [], false]);
  // A process that becomes a bystander.
  const bystander = boards.at(-1)!.abandon();
  assertEquals(first.holdsSlot(boards.at(-1)!.own), false);
  assertEquals(readBy(first), ["bystander"]);
  bystander.leave();
  for (const board of boards.slice(0, -1)) board.leave();
});

testOf("what killed processes have calls takes no memory when the next one comes", () => {
  const boards = [joined(), joined()];
  for (const board of boards) for (let time = 0; time < 100; time++) board.append(" ".repeat(8000), 0);
  const blocks = statSync(path).blocks;
  assert(blocks > 2000);
  // The state after a process was killed: its lock is released, and its records stay.
  for (const board of boards) board.abandon().leave();
  assertEquals(statSync(path).blocks, blocks);
  joined().leave();
  assert(statSync(path).blocks < 100, `${statSync(path).blocks} blocks`);
});
