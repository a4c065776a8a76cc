import { assert, assertEquals, assertThrows } from "@std/assert";
import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { inspect } from "node:util";
import { type FieldType, type Struct, struct, type StructFields } from "../../src/objects/structs/struct.ts";
import { Random } from "../differential/random.ts";
import { testOnEachDriver } from "../support/drivers.ts";
import { inFolder } from "../support/folders.ts";
import { isLong, test } from "../support/test.ts";

/** Any argument that an untyped program could pass. */
// deno-lint-ignore no-explicit-any
type Anything = any;

/** Kernels with the parameters that nvcc declares for structs. */
const ptx = `
.version 7.0
.target sm_60
.address_size 64

// struct View { float cx, cy, scale; int limit; }; *out = view.limit
.visible .entry limit(.param .align 4 .b8 view[16], .param .u64 out)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<2>;
	ld.param.u32 %r1, [view+12];
	ld.param.u64 %rd1, [out];
	st.global.u32 [%rd1], %r1;
	ret;
}

// struct Item { char tag; double weight; }; items[threadIdx.x].weight *= 2
.visible .entry double_weights(.param .u64 items)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<4>;
	.reg .f64 %d<3>;
	ld.param.u64 %rd1, [items];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 16;
	add.s64 %rd3, %rd1, %rd2;
	ld.global.f64 %d1, [%rd3+8];
	add.rn.f64 %d2, %d1, %d1;
	st.global.f64 [%rd3+8], %d2;
	ret;
}
`;

testOnEachDriver("a struct is an argument of a launch, and its layout is that of the kernel", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  using out = pool.allocateArray(Int32Array, 1);
  using module = gpu.loadModule(ptx);
  const View = struct({ cx: "f32", cy: "f32", scale: "f32", limit: "s32" });
  assertEquals([View.byteLength, View.alignment], [16, 4]);
  const kernel = module.kernel("limit");
  kernel.launch({ grid: 1, block: 1 }, View({ cx: -0.5, cy: 0, scale: 2, limit: -7 }), out);
  assertEquals(await out.toTypedArray(), Int32Array.of(-7));
  kernel.launch({ grid: 1, block: 1 }, Int32Array.of(0, 0, 0, 9), out);
  assertEquals(await out.toTypedArray(), Int32Array.of(9));
  const typed = module.kernel("limit", { parameters: [View, "u64"] });
  typed.launch({ grid: 1, block: 1 }, View({ cx: 0, cy: 0, scale: 0, limit: 8 }), out);
  assertEquals(await out.toTypedArray(), Int32Array.of(8));
});

testOnEachDriver("a struct of another size or alignment than the parameter is refused", (cuda) => {
  const gpu = cuda.device(0);
  using module = gpu.loadModule(ptx);
  const launch = (argument: Anything) => () => module.kernel("limit").launch({ grid: 1, block: 1 }, argument, 0n);
  const Small = struct({ cx: "f32", limit: "s32" });
  const Wide = struct({ c: "f64", scale: "f32", limit: "s32" });
  const message = "Cannot pass a StructValue as parameter 0 (16 bytes) of limit: it takes 16 bytes aligned to 4, the " +
    "struct has ";
  assertThrows(launch(Small({ cx: 0, limit: 0 })), RangeError, `${message}8 bytes aligned to 4`);
  assertThrows(launch(Wide({ c: 0, scale: 0, limit: 0 })), RangeError, `${message}16 bytes aligned to 8`);
  assertThrows(launch({ cx: 0, cy: 0 }), TypeError, "it takes a struct's value, a typed array or a DataView of 16");
  assertThrows(launch(Small), TypeError, "it takes a struct's value");
  assertThrows(() => module.kernel("limit", { parameters: [Small, "u64"] }), TypeError, "its PTX declares 16 bytes");
  assertThrows(
    () => module.kernel("limit", { parameters: [Wide, "u64"] }),
    TypeError,
    "Cannot take parameter 0 of limit as 16 bytes aligned to 8: its PTX declares 16 bytes aligned to 4",
  );
});

testOnEachDriver("an array of structs is written to device memory and read back", async (cuda) => {
  const gpu = cuda.device(0);
  using pool = gpu.createPool();
  const Item = struct({ tag: "s8", weight: "f64" });
  const items = [{ tag: -1, weight: 0.25 }, { tag: 2, weight: -3 }, { tag: 3, weight: 1e300 }];
  using buffer = pool.allocate(3 * Item.byteLength);
  buffer.copyFrom(Item.encode(items));
  using module = gpu.loadModule(ptx);
  module.kernel("double_weights").launch({ grid: 1, block: 3 }, buffer);
  const doubled = Item.decode(await buffer.read(Uint8Array));
  // The types are those of the fields.
  const weights: number[] = doubled.map(({ weight }) => weight);
  assertEquals(weights, [0.5, -6, 2e300]);
  assertEquals(doubled.map(({ tag }) => tag), [-1, 2, 3]);
  buffer.copyFrom(Item(items[0]!), undefined, { byteOffset: 16 });
  assertEquals(Item.decode(await buffer.read(Uint8Array, { byteOffset: 16, length: 16 })), [items[0]!]);
});

test("values are read as they were written, in nested structs and arrays", () => {
  const Inner = struct({ half: "f16", bits: "b8", flags: ["b16", 2] });
  const Outer = struct({ first: "u8", inner: Inner, list: [Inner, 2], big: "u64", small: "s64", last: "b32" });
  const inner = { half: 1.5, bits: 255, flags: [1, 65535] };
  const value = { first: 1, inner, list: [inner, { ...inner, half: -2 }], big: 2n ** 64n - 1n, small: -5n, last: 7 };
  const [read] = Outer.decode(Outer(value));
  assertEquals(read, value);
  const big: bigint = read!.big;
  const half: number | undefined = read!.list[1]?.half;
  assertEquals([big, half], [value.big, -2]);
  // What is written may have other types than what is read.
  const other = {
    ...value,
    first: true,
    inner: Inner(inner),
    list: [Inner({ ...inner, flags: Uint16Array.of(1, 65535) }), { ...inner, half: -2, bits: -1 }],
    small: -5,
    last: 7n,
  };
  assertEquals(Outer.decode(Outer.encode([other, value])), [value, value]);
  const bytes = new Uint8Array(3 + Outer.byteLength);
  bytes.set(Outer.encode([value]), 3);
  assertEquals(Outer.decode(bytes.subarray(3)), [value]);
  assertEquals(Outer.decode(bytes.slice(3).buffer), [value]);
  assertEquals(Outer.decode(new Uint8Array(0)), []);
});

test("names that JavaScript's objects have are names of fields, and an empty struct has one byte", () => {
  const Odd = struct({ constructor: "u8", length: "u8", toString: "u8", name: "u8", hasOwnProperty: "u8" });
  const values = { constructor: 1, length: 2, toString: 3, name: 4, hasOwnProperty: 5 };
  assertEquals([...Odd.encode([values])], [1, 2, 3, 4, 5]);
  assertEquals(Odd.decode(Odd(values as Anything)), [values]);
  assertThrows(() => Odd({ length: 2, name: 4 } as Anything), TypeError, 'without its field "constructor"');
  const Empty = struct({});
  assertEquals([Empty.byteLength, Empty.alignment, Empty({}).byteLength], [1, 1, 1]);
  assertEquals(struct({ one: Empty, two: Empty, three: "s32" }).byteLength, 8);
  const many = struct(
    Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`f${index}`, "u16"])) as Anything,
  );
  assertEquals(many.byteLength, 40_000);
});

test("the fields cannot be changed afterwards, and a struct prints them", () => {
  const fields: Record<string, FieldType | [FieldType, number]> = { x: "f32", y: ["u8", 4] };
  const Point = struct(fields);
  fields.x = "f64";
  (fields.y as [FieldType, number])[1] = 8;
  assertEquals(Point.byteLength, 8);
  assertEquals(Point.decode(Point({ x: 1, y: [1, 2, 3, 4] })), [{ x: 1, y: [1, 2, 3, 4] }]);
  assertEquals(inspect(Point), "Struct { x: f32, y: u8[4], 8 bytes }");
  assertEquals(inspect(Point({ x: 1, y: [1, 2, 3, 4] })), "StructValue { 8 bytes }");
  const json = { byteLength: 8, alignment: 4, fields: { x: "f32", y: ["u8", 4] } };
  assertEquals(JSON.parse(JSON.stringify(Point)), json);
  assertEquals(JSON.parse(JSON.stringify(struct({ p: Point }))).fields, { p: json });
  assertEquals(JSON.parse(JSON.stringify(Point({ x: 1, y: [1, 2, 3, 4] }))), { byteLength: 8, alignment: 4 });
});

test("values that a struct cannot have are refused, and the error names the field", () => {
  const Point = struct({ x: "f32", y: "f32" });
  const View = struct({ center: Point, corners: [Point, 2], colors: ["u8", 3], limit: "s32", id: "u64", half: "f16" });
  const corner = { x: 1, y: 2 };
  const valid = { center: corner, corners: [corner, corner], colors: [1, 2, 3], limit: 1, id: 2n, half: 0 };
  const make = (values: Anything) => () => View({ ...valid, ...values });
  const { limit: _, ...unlimited } = valid;
  const refusals: [attempt: () => unknown, error: new () => Error, message: string][] = [
    [make({ limt: 1 }), TypeError, 'Cannot write the field "limt": there is none; did you mean "limit"?'],
    [
      () => View(unlimited as Anything),
      TypeError,
      'Cannot write a struct without its field "limit": it takes center, ',
    ],
    [make({ center: { x: 1 } }), TypeError, 'a struct without its field "y" as center of a struct: it takes x, y'],
    [
      make({ corners: [corner, { ...corner, z: 1 }] }),
      TypeError,
      'the field "z" as corners[1] of a struct: there is none',
    ],
    [make({ corners: [corner] }), RangeError, "Cannot write 1 element as corners of a struct: it takes 2"],
    [make({ corners: corner }), TypeError, "an Object as corners of a struct: it takes an array of 2 elements"],
    [make({ corners: new DataView(new ArrayBuffer(2)) }), TypeError, "it takes an array of 2 elements"],
    [
      make({ colors: [1, 2, 256] }),
      RangeError,
      "Cannot write 256 as colors[2] of a struct: u8 takes a whole number from",
    ],
    [make({ colors: [1, , 3] }), TypeError, "Cannot write undefined as colors[1]"],
    [
      make({ limit: 2 ** 31 }),
      RangeError,
      "as limit of a struct: s32 takes a whole number from -2147483648 to 2147483647",
    ],
    [make({ limit: 0.5 }), RangeError, "Cannot write 0.5 as limit"],
    [make({ limit: "5" }), TypeError, "Cannot write a string as limit"],
    [make({ id: -1 }), RangeError, "as id of a struct: u64 takes a whole number from 0 to 18446744073709551615"],
    [make({ id: 2n ** 64n }), RangeError, "Cannot write 18446744073709551616 as id"],
    [make({ id: 2 ** 60 }), RangeError, "give a bigint for a number beyond 2 ** 53"],
    [make({ id: { address: 1n } }), TypeError, "give its address, and call its usedOn"],
    [make({ half: 65520 }), RangeError, "Cannot write 65520 as half of a struct: it is too large for f16"],
    [make({ center: { x: 1e39, y: 0 } }), RangeError, "as center.x of a struct: it is too large for f32"],
    [make({ center: { x: 1n, y: 0 } }), TypeError, "Cannot write a bigint as center.x of a struct: f32 takes a number"],
    [make({ center: View(valid) }), TypeError, "Cannot write a StructValue as center of a struct"],
    [
      () => Point(null as Anything),
      TypeError,
      "Cannot write null as a struct: it takes an object with the fields x, y",
    ],
    [() => Point([1, 2] as Anything), TypeError, "Cannot write an Array as a struct"],
    [() => struct({})({ x: 1 } as Anything), TypeError, "there is none; it has no fields"],
    [() => Point.encode([corner, { x: 1, y: "2" as Anything }]), TypeError, "as [1].y of an array of structs"],
    [() => Point.encode([corner, 3 as Anything]), TypeError, "Cannot write 3 as [1] of an array of structs"],
    [() => Point.encode(corner as Anything), TypeError, "Cannot encode an Object as an array of structs"],
    [() => Point.decode(new Uint8Array(9)), RangeError, "Cannot decode 9 bytes as an array of structs: a struct has 8"],
    [() => Point.decode([1] as Anything), TypeError, "give the bytes that read(Uint8Array) resolves to"],
  ];
  for (const [attempt, error, message] of refusals) assertThrows(attempt, error, message);
  View(valid);
});

test("fields that cannot be laid out are refused", () => {
  const refusals: [attempt: Anything[], error: new () => Error, message: string][] = [
    [[{ 0: "f32" }], RangeError, 'with the field "0": JavaScript moves names that are whole numbers'],
    [[{ x: "f32", 4294967294: "f32" }], RangeError, 'with the field "4294967294"'],
    [[{ ["__proto__"]: "f32" }], RangeError, 'with the field "__proto__"'],
    [[{ "__proto__": ["f32", 2], x: "f32" }], TypeError, "a struct of fields that an object inherits"],
    [[{ [Symbol.iterator]: "f32" }], TypeError, "with a symbol as the name of a field"],
    [[{ x: "float" }], TypeError, 'the field "x" as "float": a type is one of b8, '],
    [[{ x: "toString" }], TypeError, 'the field "x" as "toString"'],
    [[{ x: Float32Array }], TypeError, 'the field "x" as the function Float32Array'],
    [[{ x: undefined }], TypeError, 'the field "x" as undefined'],
    [[{ x: { byteLength: 4, alignment: 4 } }], TypeError, 'the field "x" as an Object'],
    [[{ x: ["f32"] }], TypeError, "an array is given as [type, count]"],
    [[{ x: ["f32", 4, 4] }], TypeError, "of several dimensions with the product of their counts"],
    [[{ x: [["f32", 4], 4] }], TypeError, 'the field "x" as an Array'],
    [[{ x: ["f32", "4"] }], TypeError, 'the field "x" with a string as its count'],
    [[{ x: ["f32", 0] }], RangeError, 'the field "x" as an array of 0 elements'],
    [[{ x: ["f64", 2 ** 40] }], RangeError, "it can have at most 2147483647"],
    [[{ x: ["u8", 2 ** 31 - 1], y: "u8" }], RangeError, "it can have at most 2147483647"],
    [[null], TypeError, "Cannot lay out null as a struct"],
    [[["f32"]], TypeError, "Cannot lay out an Array as a struct"],
    [[{ x: "f64" }, { alignment: 4 }], RangeError, "at least the 8 that its fields need"],
    [[{ x: "f64" }, { alignment: 24 }], RangeError, "give a power of two"],
    [[{ x: "f64" }, { alignment: "16" }], TypeError, "Cannot align a struct to a string"],
    [[{ x: "f64" }, 16], TypeError, "Cannot describe a struct with 16 as its options"],
  ];
  for (const [args, error, message] of refusals) assertThrows(() => struct(...args as [Anything]), error, message);
  const Vector = struct({ x: "f32", y: "f32", z: "f32", w: "f32" }, { alignment: 16 });
  const Ray = struct({ t: "f32", origin: Vector });
  assertEquals([Vector.byteLength, Vector.alignment, Ray.byteLength, Ray.alignment], [16, 16, 32, 16]);
  // Names that only look like numbers keep their places.
  assertEquals([...struct({ "01": "u8", "-1": "u8", "1.5": "u8" }).encode([{ "01": 1, "-1": 2, "1.5": 3 }])], [
    1,
    2,
    3,
  ]);
});

const typesInC: Readonly<Record<string, string>> = {
  b8: "unsigned char",
  u8: "unsigned char",
  s8: "signed char",
  b16: "unsigned short",
  u16: "unsigned short",
  s16: "short",
  b32: "unsigned int",
  u32: "unsigned int",
  s32: "int",
  f32: "float",
  b64: "unsigned long long",
  u64: "unsigned long long",
  s64: "long long",
  f64: "double",
};

/** A struct, its declaration in C++, and a value in both languages. */
interface Sample {
  readonly type: Struct<Anything>;
  readonly name: string;
  readonly value: Anything;
  readonly valueInC: string;
}

/** Declares a random struct, which may contain earlier ones. */
function sampleOf(random: Random, earlier: readonly Sample[], declarations: string[]): Sample {
  const fields: StructFields = {};
  const members: string[] = [];
  const value: Record<string, unknown> = {};
  const values: string[] = [];
  const small = earlier.filter(({ type }) => type.byteLength < 500);
  for (let index = random.below(8); index >= 0; index--) {
    const field = `field_${index}`;
    const nested = small.length > 0 && random.percent(25) ? random.pick(small) : undefined;
    const scalar = random.pick(Object.keys(typesInC));
    const type = nested?.type as FieldType | undefined ?? scalar as FieldType;
    const count = random.below(3) === 0 ? 1 + random.below(5) : undefined;
    const elements = Array.from({ length: count ?? 1 }, () => {
      if (nested !== undefined) return [nested.value, nested.valueInC] as const;
      const value = 1 + random.below(127);
      return scalar === "u64"
        ? [BigInt(value) << 56n, `${BigInt(value) << 56n}ull`] as const
        : [value, `${value}`] as const;
    });
    fields[field] = count === undefined ? type : [type, count];
    members.push(`${nested?.name ?? typesInC[scalar]} ${field}${count === undefined ? "" : `[${count}]`};`);
    value[field] = count === undefined ? elements[0]![0] : elements.map(([element]) => element);
    const list = elements.map(([, element]) => element).join(", ");
    values.push(count === undefined ? list : `{${list}}`);
  }
  const name = `Struct${earlier.length}`;
  const alignment = random.below(6) === 0 ? 16 << random.below(2) : undefined;
  const needed = struct(fields).alignment;
  const isAligned = alignment !== undefined && alignment >= needed;
  declarations.push(`struct ${isAligned ? `alignas(${alignment}) ` : ""}${name} { ${members.join(" ")} };`);
  return {
    type: struct(fields, isAligned ? { alignment } : {}),
    name,
    value,
    valueInC: `{${values.join(", ")}}`,
  };
}

const noCompiler = existsSync("/usr/bin/g++") ? undefined : "/usr/bin/g++ does not exist";

test(
  "random structs have the sizes, alignments and bytes that a C++ compiler gives them",
  { skip: noCompiler },
  () =>
    inFolder((folder) => {
      const random = new Random(20);
      const samples: Sample[] = [];
      const declarations = ["#include <cstdio>", "#include <cstring>"];
      for (let count = isLong ? 400 : 60; count > 0; count--) samples.push(sampleOf(random, samples, declarations));
      const prints = samples.map(({ name, valueInC }, index) =>
        `static const ${name} value${index} = ${valueInC}; print(&value${index}, sizeof(${name}), alignof(${name}));`
      );
      const print = `void print(const void *value, size_t size, size_t alignment) {
      printf("%zu %zu ", size, alignment);
      for (size_t i = 0; i < size; i++) printf("%02x", static_cast<const unsigned char *>(value)[i]);
      printf("\\n");
    }`;
      writeFileSync(`${folder}/s.cpp`, [...declarations, print, "int main() {", ...prints, "}"].join("\n"));
      execFileSync("/usr/bin/g++", ["-O0", "-o", `${folder}/s`, `${folder}/s.cpp`]);
      const printed = execFileSync(`${folder}/s`, { encoding: "utf8" }).trim().split("\n");
      const ours = samples.map(({ type, value }) => {
        const bytes = Array.from(type.encode([value]), (byte) => byte.toString(16).padStart(2, "0")).join("");
        assertEquals(type.decode(type.encode([value, value])).length, 2);
        return `${type.byteLength} ${type.alignment} ${bytes}`;
      });
      assert(new Set(ours).size > samples.length / 2);
      assertEquals(ours, printed);
      return Promise.resolve();
    }),
);
