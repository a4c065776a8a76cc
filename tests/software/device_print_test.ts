import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  addressBase,
  boundsTable,
  localAddressBase,
  parameterAddressBase,
  sharedAddressBase,
} from "../../src/software/abi/addresses.ts";
import {
  assertionMessage,
  type PrintCall,
  printFromDevice,
  UnreadableError,
} from "../../src/software/execution/printing/device_print.ts";
import { writeThroughLineBuffer, writeWhole } from "../../src/software/execution/printing/standard_output.ts";
import { startScript } from "../support/child_process.ts";

interface Argument {
  readonly byteLength: number;
  store(offset: number): void;
}

type Case = readonly [format: string, argument: Argument, printed: string];

/** Byte length of the readable allocation at offset 0. The bounds table lies behind it. */
const globalBytes = 2 ** 22;
const bytes = new Uint8Array(new SharedArrayBuffer(globalBytes + boundsTable.byteLength));
const view = new DataView(bytes.buffer);
const places = { format: 0x1000, local: 0x1_0000, arguments: 0x1_8000, shared: 0x2_0000, texts: 0x3_0000 };
const memory = {
  shared: { begin: places.shared, byteLength: 0x1000 },
  local: { begin: places.local, byteLength: 0x1_0000 },
  parameters: { begin: 0x2_8000, byteLength: 24 },
  bounds: globalBytes,
};
let endOfTexts = places.texts;
allow(0, globalBytes);

/** Makes memory from an offset readable by kernels. */
function allow(begin: number, byteLength: number): void {
  const first = begin / 512;
  for (let granule = first; granule * 512 < begin + byteLength; granule++) {
    view.setUint32(memory.bounds + 4 * granule, first + 1, true);
  }
  view.setUint32(memory.bounds + boundsTable.lengths + 4 * first, byteLength, true);
}

function int(value: number): Argument {
  return { byteLength: 4, store: (offset) => view.setInt32(offset, value, true) };
}

function long(value: bigint): Argument {
  return { byteLength: 8, store: (offset) => view.setBigUint64(offset, BigInt.asUintN(64, value), true) };
}

function double(value: number): Argument {
  return { byteLength: 8, store: (offset) => view.setFloat64(offset, value, true) };
}

function text(value: string): Argument {
  return long(addressOfText(value));
}

function addressOfText(value: string): bigint {
  const offset = endOfTexts;
  endOfTexts += storeText(value, offset);
  return addressBase + BigInt(offset);
}

/** Returns the byte length of the encoded string. */
function storeText(value: string, offset: number): number {
  const encoded = new TextEncoder().encode(`${value}\0`);
  bytes.set(encoded, offset);
  return encoded.length;
}

/** Prints, and returns the output with the result that the kernel receives. */
function print(format: string | bigint, ...values: readonly Argument[]): { printed: string; result: number } {
  if (typeof format === "string") storeText(format, places.format);
  bytes.fill(0xee, places.arguments, places.arguments + 1024);
  let end = places.arguments;
  for (const { byteLength, store } of values) {
    const offset = Math.ceil(end / byteLength) * byteLength;
    store(offset);
    end = offset + byteLength;
  }
  return printCall({
    format: typeof format === "bigint" ? format : addressBase + BigInt(places.format),
    arguments: localAddressBase + BigInt(places.arguments - places.local),
    memory,
  });
}

/** Returns the unreadable address that ended a call. */
function unreadable(run: () => unknown): bigint {
  return (assertThrows(run, UnreadableError) as UnreadableError).address;
}

function printCall(call: PrintCall): { printed: string; result: number } {
  const written: Uint8Array[] = [];
  const result = printFromDevice(bytes, call, (text) => void written.push(text));
  assertEquals(written.length <= 1, true, "the output is written in one piece");
  return { printed: new TextDecoder().decode(written[0]), result };
}

/** The output of the GNU C library. */
const integers: readonly Case[] = [
  ["%d", int(0), "0"],
  ["%d", int(-1), "-1"],
  ["%i", int(2147483647), "2147483647"],
  ["%d", int(-2147483648), "-2147483648"],
  ["%u", int(-1), "4294967295"],
  ["%+d", int(5), "+5"],
  ["% d", int(5), " 5"],
  ["%+ d", int(5), "+5"],
  ["% d", int(-5), "-5"],
  ["%5d|", int(42), "   42|"],
  ["%-8d|", int(42), "42      |"],
  ["%08d|", int(-42), "-0000042|"],
  ["%-08d|", int(42), "42      |"],
  ["%.5d", int(42), "00042"],
  ["%8.5d|", int(-42), "  -00042|"],
  ["%08.5d|", int(42), "   00042|"],
  ["%.0d|", int(0), "|"],
  ["%+.0d|", int(0), "+|"],
  ["%5.0d|", int(0), "     |"],
  ["%.d|", int(7), "7|"],
  ["%x", int(255), "ff"],
  ["%X", int(-1), "FFFFFFFF"],
  ["%#x", int(255), "0xff"],
  ["%#X", int(255), "0XFF"],
  ["%#x", int(0), "0"],
  ["%#.0x|", int(0), "|"],
  ["%#010x", int(255), "0x000000ff"],
  ["%-#10x|", int(255), "0xff      |"],
  ["%#8.4x|", int(255), "  0x00ff|"],
  ["%o", int(8), "10"],
  ["%#o", int(8), "010"],
  ["%#o", int(0), "0"],
  ["%#.0o", int(0), "0"],
  ["%#.5o", int(8), "00010"],
  ["%hd", int(40000), "-25536"],
  ["%hu", int(-1), "65535"],
  ["%hx", int(0x12345), "2345"],
  ["%ho", int(0x1ffff), "177777"],
  ["%hi", int(-32769), "32767"],
  ["%c", int(65), "A"],
  ["%3c|", int(66), "  B|"],
  ["%-3c|", int(67), "C  |"],
  ["%05c|", int(68), "    D|"],
  ["%c", int(0x141), "A"],
  ["%hc", int(69), "E"],
  ["%lld", long(0n), "0"],
  ["%lld", long(-(2n ** 63n)), "-9223372036854775808"],
  ["%+ld", long(2n ** 63n - 1n), "+9223372036854775807"],
  ["%llu", long(2n ** 64n - 1n), "18446744073709551615"],
  ["%#llo", long(2n ** 64n - 1n), "01777777777777777777777"],
  ["%#lX", long(0x123456789abcdef0n), "0X123456789ABCDEF0"],
  ["%ld", long(-5000000000n), "-5000000000"],
  ["%30lld|", long(-5000000000n), "                   -5000000000|"],
  ["%-30.20lld|", long(5000000000n), "00000000005000000000          |"],
  ["%030lli|", long(-5000000000n), "-00000000000000000005000000000|"],
  ["%lx", long(0xdeadbeefcafen), "deadbeefcafe"],
];

const doubles: readonly Case[] = [
  ["%f", double(0.0), "0.000000"],
  ["%f", double(-0.0), "-0.000000"],
  ["%f", double(1.5), "1.500000"],
  ["%5.2f|", double(3.14159), " 3.14|"],
  ["%10.2f|", double(-3.14159), "     -3.14|"],
  ["%-10.2f|", double(3.14159), "3.14      |"],
  ["%+.1f", double(2.25), "+2.2"],
  ["%.1f", double(2.35), "2.4"],
  ["%.0f", double(0.5), "0"],
  ["%.0f", double(1.5), "2"],
  ["%.0f", double(2.5), "2"],
  ["%#.0f", double(2.5), "2."],
  ["%010.3f|", double(-3.14159), "-00003.142|"],
  ["% f", double(1.0), " 1.000000"],
  ["%.3f", double(999.9996), "1000.000"],
  ["%.0f", double(9.5), "10"],
  ["%.2f", double(0.005), "0.01"],
  ["%.20f", double(0.1), "0.10000000000000000555"],
  ["%.55f", double(0.1), "0.1000000000000000055511151231257827021181583404541015625"],
  ["%f", double(1e22), "10000000000000000000000.000000"],
  ["%.1f", double(1e23), "99999999999999991611392.0"],
  ["%f", double(123456789.125), "123456789.125000"],
  ["%.3F", double(1234.5678), "1234.568"],
  ["%lf", double(1.25), "1.250000"],
  ["%hf", double(1.25), "1.250000"],
  ["%e", double(0.0), "0.000000e+00"],
  ["%e", double(1.0), "1.000000e+00"],
  ["%08.3e", double(12345.678), "1.235e+04"],
  ["%.0e", double(12345.0), "1e+04"],
  ["%#.0e", double(12345.0), "1.e+04"],
  ["%.0e", double(2.5), "2e+00"],
  ["%.0e", double(3.5), "4e+00"],
  ["%E", double(1e-300), "1.000000E-300"],
  ["%e", double(5e-324), "4.940656e-324"],
  ["%.20e", double(1.7976931348623157e308), "1.79769313486231570815e+308"],
  ["%e", double(9.9999995), "9.999999e+00"],
  ["%.3e", double(9.9996e99), "1.000e+100"],
  ["%15.4e|", double(-1e-5), "    -1.0000e-05|"],
  ["%-15.4e|", double(1e100), "1.0000e+100    |"],
  ["%g", double(0.0), "0"],
  ["%g", double(1.0), "1"],
  ["%g", double(100000.0), "100000"],
  ["%g", double(1000000.0), "1e+06"],
  ["%g", double(123456.7), "123457"],
  ["%g", double(999999.5), "1e+06"],
  ["%g", double(0.0001), "0.0001"],
  ["%g", double(0.00001), "1e-05"],
  ["%g", double(0.00012345678), "0.000123457"],
  ["%g", double(1e-300), "1e-300"],
  ["%g", double(1e300), "1e+300"],
  ["%g", double(5e-324), "4.94066e-324"],
  ["%g", double(-2.5), "-2.5"],
  ["%.3g", double(1234.0), "1.23e+03"],
  ["%.3g", double(0.0012345), "0.00123"],
  ["%.0g", double(1234.0), "1e+03"],
  ["%.10g", double(0.1), "0.1"],
  ["%.17g", double(0.1), "0.10000000000000001"],
  ["%#g", double(1.0), "1.00000"],
  ["%#.3g", double(1e10), "1.00e+10"],
  ["%G", double(1e-10), "1E-10"],
  ["%12g|", double(1.5), "         1.5|"],
  ["%-12g|", double(1.5), "1.5         |"],
  ["%012g|", double(-1.5), "-000000001.5|"],
  ["%+g", double(1.5), "+1.5"],
  ["%.50g", double(0.1), "0.1000000000000000055511151231257827021181583404541"],
  ["%#g", double(0.0), "0.00000"],
  ["%a", double(0.0), "0x0p+0"],
  ["%a", double(-0.0), "-0x0p+0"],
  ["%a", double(1.0), "0x1p+0"],
  ["%a", double(1.5), "0x1.8p+0"],
  ["%a", double(-0.1), "-0x1.999999999999ap-4"],
  ["%A", double(0.1), "0X1.999999999999AP-4"],
  ["%a", double(5e-324), "0x0.0000000000001p-1022"],
  ["%a", double(1.7976931348623157e308), "0x1.fffffffffffffp+1023"],
  ["%.0a", double(1.5), "0x2p+0"],
  ["%.0a", double(1.25), "0x1p+0"],
  ["%.1a", double(1.96875), "0x2.0p+0"],
  ["%.3a", double(3.14159), "0x1.922p+1"],
  ["%.15a", double(1.5), "0x1.800000000000000p+0"],
  ["%#.0a", double(1.0), "0x1.p+0"],
  ["%20a|", double(1.5), "            0x1.8p+0|"],
  ["%-20a|", double(1.5), "0x1.8p+0            |"],
  ["%020a|", double(-1.5), "-0x000000000001.8p+0|"],
  ["%+a", double(2.0), "+0x1p+1"],
  ["%.0a", double(1e-310), "0x0p-1022"],
  ["%f", double(Infinity), "inf"],
  ["%F", double(-Infinity), "-INF"],
  ["%010f|", double(Infinity), "       inf|"],
  ["%+g", double(Infinity), "+inf"],
  ["%-8e|", double(-Infinity), "-inf    |"],
  ["%8a|", double(Infinity), "     inf|"],
  ["%f", double(NaN), "nan"],
  ["%G", double(NaN), "NAN"],
  ["% 010e|", double(NaN), "       nan|"],
  ["%A", double(NaN), "NAN"],
  ["%f|", long(0xfff8_0000_0000_0000n), "-nan|"],
  ["%010F|", long(0xfff8_0000_0000_0000n), "      -NAN|"],
];

const texts: readonly Case[] = [
  ["%s", text("hello"), "hello"],
  ["%10s|", text("hello"), "     hello|"],
  ["%-10s|", text("hello"), "hello     |"],
  ["%.3s|", text("hello"), "hel|"],
  ["%10.3s|", text("hello"), "       hel|"],
  ["%-10.3s|", text("hello"), "hel       |"],
  ["%.0s|", text("hello"), "|"],
  ["%.s|", text("hello"), "|"],
  ["%010s|", text("hello"), "     hello|"],
  ["%hs", text(""), ""],
  ["%s|", text("Größe"), "Größe|"],
];

for (const [name, cases] of Object.entries({ integers, doubles, texts })) {
  test(`device printf prints ${name} as C does`, () => {
    for (const [format, argument, printed] of cases) {
      assertEquals(print(format, argument), { printed, result: 1 }, format);
    }
  });
}

/** The output of an H200 with driver 580.159 on Linux: its formats, some with smaller numbers. */
const onGpu: readonly [format: string, values: readonly Argument[], printed: string, result: number][] = [
  ["plain", [], "plain", 0],
  ["", [], "", 0],
  ["%%", [], "%", 0],
  ["%x%%%x%%", [int(1), int(2)], "1%2%", 2],
  ["%5%|%-5%|%x", [int(1)], "%|%|1", 1],
  ["%*x|%x", [int(5), int(-6), int(3)], "fffffffa|3", 3],
  ["%x%*x|%x", [int(5), int(-6), int(3), int(0x41)], "53     |41", 4],
  ["%*.1f|%x", [int(5), double(0), int(9)], "  0.0|9", 3],
  ["%hd|%x", [int(0x20041), int(0x20042)], "65|20042", 2],
  ["%hc|%c|%x", [int(0x20041), int(0x20042), int(0x20043)], "A|B|20043", 3],
  ["%lc|%x", [long(0x20042_0002_0041n), int(0x20043)], "|20043", 2],
  ["%lx|%x", [long(0x20042_0002_0041n), int(0x20043)], "2004200020041|20043", 2],
  ["%llx|%x", [long(0x20042_0002_0041n), int(0x20043)], "2004200020041|20043", 2],
  ["%hf|%x", [double(0), int(1)], "0.000000|1", 2],
  ["%p|%x", [long(0x7f12_3456_789an), int(1)], "0x7f123456789a|1", 2],
  ["%lp|%5p|%20p|", [long(65n), long(65n), long(65n)], "0x41| 0x41|                0x41|", 3],
  ["%-20p|%020p|", [long(65n), long(65n)], "0x41                |0x000000000000000041|", 2],
  ["%.5p|%.20p|", [long(65n), long(65n)], "0x00041|0x00000000000000000041|", 2],
  ["%#p|%+p|% p|", [long(65n), long(65n), long(65n)], "0x41|+0x41| 0x41|", 3],
  ["%p|%5p|%-10p|", [long(0n), long(0n), long(0n)], "(nil)|(nil)|(nil)     |", 3],
  ["%s|%10s|%-10s|", [long(0n), long(0n), long(0n)], "(null)|    (null)|(null)    |", 3],
  ["%.8s|%.6s|%.3s|%.s|", [long(0n), long(0n), long(0n), long(0n)], "(null)|(null)|||", 4],
  ["%ls|%lls|%s|", [long(0n), long(0n), text("hello")], "(null)|(null)|hello|", 3],
  ["%ls|%S|", [text("hello"), text("hello")], "||", 2],
  ["%#s|%+s|% 8s|", [text("hello"), text("hello"), text("hello")], "hello|hello|   hello|", 3],
  ["%c|%s", [int(0), text("hello")], "\0|hello", 2],
  ["%+-5.3c|%#c|", [int(65), int(66)], "A    |B|", 2],
  ["%i|%f", [int(0), double(Infinity)], "0|inf", 2],
  ["é%d", [int(1)], "é1", 1],
  // Incomplete or unknown conversions.
  ["%", [], "%", 0],
  ["abc%", [], "abc%", 0],
  ["%5", [], "%5", 0],
  ["%l", [], "%l", 0],
  ["%y|%x", [int(1)], "%y|1", 1],
  ["%!x|%x", [int(1)], "%!x|1", 1],
  ["%k%x", [int(1)], "%k1", 1],
  ["%3 d|%x", [int(1)], "%3 d|1", 1],
  ["%.3.4d|", [], "%.3.4d|", 0],
  ["%2$x %1$x", [], "%2$x %1$x", 0],
  ["%5*x|%x", [int(5)], "%5*x|5", 1],
];

test("device printf prints what a GPU prints", () => {
  for (const [format, values, printed, result] of onGpu) {
    assertEquals(print(format, ...values), { printed, result }, format);
  }
});

test("device printf copies conversions that take no argument on a GPU", () => {
  const directives = ["%zu", "%hhd", "%jd", "%td", "%qd", "%Lf", "%.*f", "%n", "%C", "%m", "%'d", "%Id", "%*5d", "%b"];
  for (const directive of directives) {
    assertEquals(print(`${directive}|%d`, int(7)), { printed: `${directive}|7`, result: 1 });
  }
});

test("device printf reads each argument at a multiple of its size", () => {
  const values = [int(1), double(2.5), int(3), int(4), long(5n), text("six"), int(65), long(8n)];
  assertEquals(print("%d %g %hd%d %lld %s %c %p", ...values), { printed: "1 2.5 34 5 six A 0x8", result: 8 });
});

test("device printf takes 32 arguments, and copies further conversions", () => {
  const values = Array.from({ length: 40 }, (_, index) => int(index));
  const first = Array.from({ length: 31 }, (_, index) => `${index} `).join("");
  assertEquals(print("%d ".repeat(34), ...values), { printed: `${first}31 %d %d `, result: 32 });
  assertEquals(print(`${"%d ".repeat(31)}%*d %s%%`, ...values), { printed: `${first}%*d %s%`, result: 32 });
});

test("device printf reads local and shared memory", () => {
  storeText("format %s %s", places.shared + 0x40);
  storeText("local", places.local + 0x20);
  view.setBigUint64(places.local + 0x100, localAddressBase + 0x20n, true);
  view.setBigUint64(places.local + 0x108, sharedAddressBase + 0x47n, true);
  const call = { format: sharedAddressBase + 0x40n, arguments: localAddressBase + 0x100n, memory };
  assertEquals(printCall(call), { printed: "format local %s %s", result: 2 });
});

test("device printf reads a kernel's parameters", () => {
  storeText("format %s", memory.parameters.begin);
  view.setBigUint64(memory.parameters.begin + 16, parameterAddressBase + 3n, true);
  const call = { format: parameterAddressBase, arguments: parameterAddressBase + 16n, memory };
  assertEquals(printCall(call), { printed: "format mat %s", result: 1 });
});

test("device printf reads a string only up to the precision", () => {
  const end = addressBase + BigInt(globalBytes);
  const address = end - 3n;
  bytes.set([97, 98, 99], globalBytes - 3);
  assertEquals(print("%.3s|%.2s", long(address), long(address)), { printed: "abc|ab", result: 2 });
  assertEquals(print("%.0s|", long(end)), { printed: "|", result: 1 });
  assertEquals(unreadable(() => print("%.4s", long(address))), end);
  assertEquals(unreadable(() => print("%s", long(address))), end);
  assertEquals(unreadable(() => print(address)), end);
});

test("device printf refuses a null format", () => {
  assertEquals(print(0n), { printed: "", result: -1 });
});

test("device printf reads no memory that the kernel may not access", () => {
  const end = addressBase + BigInt(globalBytes);
  const format = addressBase + BigInt(places.format);
  const pastEnds = [
    end,
    sharedAddressBase + BigInt(memory.shared.byteLength),
    localAddressBase + BigInt(memory.local.byteLength),
    parameterAddressBase + BigInt(memory.parameters.byteLength),
  ];
  for (const given of [0n, 1n, addressBase - 1n, ...pastEnds, end + 2n ** 34n, -1n, -(2n ** 63n)]) {
    const address = BigInt.asUintN(64, given);
    if (address !== 0n) {
      assertEquals(unreadable(() => print(given)), address, `a format at ${address}`);
      assertEquals(unreadable(() => print("a %s", long(given))), address, `text at ${address}`);
    }
    const call = { format, arguments: given, memory };
    storeText("%d", places.format);
    assertEquals(unreadable(() => printCall(call)), address, `arguments at ${address}`);
    storeText("none", places.format);
    assertEquals(printCall(call), { printed: "none", result: 0 });
  }
  storeText("%d%lld", places.format);
  for (const [left, bad] of [[16, undefined], [15, 8], [8, 8], [3, 0]] as const) {
    for (const past of pastEnds) {
      const call = { format, arguments: past - BigInt(left), memory };
      if (bad === undefined) assertEquals(printCall(call).result, 2);
      else assertEquals(unreadable(() => printCall(call)), call.arguments + BigInt(bad), `${left} before ${past}`);
    }
  }
});

test("device printf reads an allocation to its end, and nothing past it", () => {
  const begin = 2 ** 21;
  allow(begin, 515);
  try {
    bytes.fill(0x78, begin, begin + 514);
    bytes.set([0, 0x79, 0], begin + 514);
    const [last, behind] = [514n, 515n].map((offset) => addressBase + BigInt(begin) + offset);
    assertEquals(print("%s|", long(last! - 514n)), { printed: `${"x".repeat(514)}|`, result: 1 });
    assertEquals(print("%s|", long(last!)), { printed: "|", result: 1 });
    assertEquals(unreadable(() => print("%s|", long(behind!))), behind);
    bytes[begin + 514] = 0x78;
    assertEquals(unreadable(() => print("%s|", long(last! - 514n))), behind);
    view.setUint32(memory.bounds + 4 * (begin / 512), 0, true);
    assertEquals(unreadable(() => print("%s|", long(last! - 514n))), last! - 514n);
  } finally {
    allow(0, globalBytes);
  }
});

test("device printf prints nothing if the output exceeds a GPU's buffer", () => {
  const most = 2 ** 20;
  assertEquals(print(`%${most}d`, int(7)), { printed: "7".padStart(most), result: 1 });
  for (const directive of [`%${most + 1}d`, `%.${most + 1}f`, "%99999999999s"]) {
    assertEquals(print(directive, long(0n)), { printed: "", result: -2 }, directive);
  }
  assertEquals(print("%*d", int(-(2 ** 31)), int(1)), { printed: "", result: -2 });
  const endless = text("x".repeat(most + 1));
  assertEquals(print("%s", endless), { printed: "", result: -2 });
  assertEquals(print("%.9999999s", endless), { printed: "", result: -2 });
  assertEquals(print("%.3s", endless), { printed: "xxx", result: 1 });
});

test("a failed assertion prints the same message as CUDA", () => {
  const message = addressOfText('x==1&&"say \\"hi\\""');
  const call = {
    message,
    file: addressOfText("a.cu"),
    function: addressOfText("void t(int)"),
    line: 7,
    block: [1, 0, 0],
    thread: [0, 1, 0],
    memory,
  } as const;
  assertEquals(
    assertionMessage(bytes, call).text,
    'a.cu:7: void t(int): block: [1,0,0], thread: [0,1,0] Assertion `x==1&&"say \\"hi\\""` failed.',
  );
  const unreadable = { ...call, file: 0n, function: localAddressBase - 1n, block: [70000, 2, 3] } as const;
  assertEquals(
    assertionMessage(bytes, unreadable).text,
    '?:7: ?: block: [70000,2,3], thread: [0,1,0] Assertion `x==1&&"say \\"hi\\""` failed.',
  );
  storeText("in local memory", places.local + 0x20);
  assertEquals(
    assertionMessage(bytes, { ...unreadable, function: localAddressBase + 0x20n }).text,
    '?:7: in local memory: block: [70000,2,3], thread: [0,1,0] Assertion `x==1&&"say \\"hi\\""` failed.',
  );
});

test("output is written completely, in however many writes", () => {
  const written: number[] = [];
  let attempts = 0;
  writeWhole((some) => {
    if (++attempts % 3 === 0) throw Object.assign(new Error("The pipe is full"), { code: "EAGAIN" });
    written.push(...some.subarray(0, 2));
    return Math.min(some.length, 2);
  }, Uint8Array.of(1, 2, 3, 4, 5, 6, 7));
  assertEquals(written, [1, 2, 3, 4, 5, 6, 7]);
  assertEquals(attempts, 5);
});

test("output through a line-buffering stream is written once", () => {
  const lines = `${"x".repeat(3000)}\none\ntwo ${"y".repeat(1500)}`;
  let buffered = "";
  let printed = "";
  let attempts = 0;
  const passOn = (text: string) => {
    if (++attempts % 3 !== 0) throw Object.assign(new Error("The pipe is full"), { code: "EAGAIN" });
    printed += text;
  };
  writeThroughLineBuffer((some) => {
    assertEquals(some.length < 1024, true, "the write fits in the buffer");
    const text = new TextDecoder().decode(some);
    if (text.endsWith("\n")) {
      passOn(text);
    } else {
      buffered += text;
      passOn(buffered);
      buffered = "";
    }
    return some.length;
  }, new TextEncoder().encode(lines));
  assertEquals(printed, lines);
});

test("output to a closed reader is discarded", () => {
  let attempts = 0;
  writeWhole(() => {
    attempts++;
    throw Object.assign(new Error("Nobody reads the pipe"), { code: "EPIPE" });
  }, Uint8Array.of(1, 2, 3));
  assertEquals(attempts, 1);
});

for (
  const [name, args, permissions] of [
    ["with no permission", [], []],
    ["where that does not block", ["nonblocking"], ["--allow-ffi"]],
  ] as const
) {
  test(`a process prints to its own standard output and standard error, ${name}`, async () => {
    await using child = startScript("children/print_and_report.ts", args, { permissions });
    assertEquals(await child.nextLine(), "é".repeat(500_000));
    assertEquals(await child.nextLine(), "line 0");
    for (let line = 1; line < 20_000; line++) assertEquals(await child.nextLine(), `and the line ${line}`);
    assertEquals(await child.nextLine(), "and the end");
    assertEquals(await child.nextLine(), undefined);
    assertEquals(await child.errors(), "reported\n");
    assertEquals(await child.ended, 0);
  });
}
