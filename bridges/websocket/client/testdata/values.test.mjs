import assert from "node:assert/strict";
import test from "node:test";
import { Value, decodeValue, encodeValue } from "./crosstown.js";

const bytes = Uint8Array.of(0, 1, 254, 255);

// Values of every type with the form that they have in frames, both ways.
const same = [
  [null, null],
  [true, true],
  ["text", "text"],
  [0, 0],
  [Number.MAX_SAFE_INTEGER, 9007199254740991],
  [-9007199254740991, -9007199254740991],
  [9007199254740992n, { $long: "9007199254740992" }],
  [-9223372036854775808n, { $long: "-9223372036854775808" }],
  [1.5, 1.5],
  [5e-324, 5e-324],
  [NaN, { $double: "NaN" }],
  [-Infinity, { $double: "-Infinity" }],
  [Value.double(3), { $double: 3 }],
  [Value.double(-0), { $double: "-0" }],
  [Value.double(1e300), { $double: 1e300 }],
  [Value.int(5), { $int: 5 }],
  [Value.short(-5), { $short: -5 }],
  [Value.byte(5), { $byte: 5 }],
  [Value.uint(5), { $uint: 5 }],
  [Value.ushort(5), { $ushort: 5 }],
  [Value.ubyte(5), { $ubyte: 5 }],
  [Value.ulong(18446744073709551615n), { $ulong: "18446744073709551615" }],
  [Value.ulong(5), { $ulong: "5" }],
  [Value.float(1.5), { $float: 1.5 }],
  [Value.float(NaN), { $float: "NaN" }],
  [Value.decimal32("00112233"), { $decimal32: "00112233" }],
  [Value.decimal64("00112233aabbccdd"), { $decimal64: "00112233aabbccdd" }],
  [Value.decimal128("00112233aabbccdd00112233aabbccdd"), { $decimal128: "00112233aabbccdd00112233aabbccdd" }],
  [new Date("2026-01-31T12:00:00.123Z"), { $timestamp: "2026-01-31T12:00:00.123Z" }],
  [Value.uuid("00112233-4455-6677-8899-aabbccddeeff"), { $uuid: "00112233-4455-6677-8899-aabbccddeeff" }],
  [bytes, { $binary: "AAH+/w==" }],
  [Value.symbol("x"), { $symbol: "x" }],
  [Value.char("é"), { $char: "é" }],
  [[1, "a", [null]], [1, "a", [null]]],
  [{ k: Value.int(1), l: {} }, { k: { $int: 1 }, l: {} }],
  [new Map([[1, "a"], ["$k", bytes]]), { $map: [[1, "a"], ["$k", { $binary: "AAH+/w==" }]] }],
  [new Date(253402300800000), { $timestamp: 253402300800000 }],
  [Value.array("int", [1, 2]), { $array: ["int", [1, 2]] }],
  [Value.array("ulong", [18446744073709551615n]), { $array: ["ulong", ["18446744073709551615"]] }],
  [Value.array("long", [1, 9007199254740993n]), { $array: ["long", [1, "9007199254740993"]] }],
  [Value.array("double", [1.5, 3, -Infinity]), { $array: ["double", [1.5, 3, "-Infinity"]] }],
  [Value.array("string", ["a", "1"]), { $array: ["string", ["a", "1"]] }],
  [Value.array("boolean", [true, false]), { $array: ["boolean", [true, false]] }],
  [Value.array("binary", [bytes]), { $array: ["binary", ["AAH+/w=="]] }],
  [Value.array("timestamp", [new Date(0)]), { $array: ["timestamp", ["1970-01-01T00:00:00.000Z"]] }],
  [Value.array("list", [[1, Value.int(2)], []]), { $array: ["list", [[1, { $int: 2 }], []]] }],
  [Value.array("map", [new Map([["k", 1]])]), { $array: ["map", [[["k", 1]]]] }],
  [Value.array("array", [["int", [1]]]), { $array: ["array", [["int", [1]]]] }],
  [Value.array("uuid", [], Value.symbol("d")), { $array: ["uuid", [], { $symbol: "d" }] }],
  [Value.described(Value.symbol("d"), [1]), { $described: [{ $symbol: "d" }, [1]] }],
];

test("values of every type survive both ways", () => {
  for (const [value, frame] of same) {
    assert.deepEqual(JSON.parse(JSON.stringify(encodeValue(value))), frame);
    assert.deepEqual(decodeValue(JSON.parse(JSON.stringify(frame))), value);
  }
});

test("what is written otherwise is read all the same", () => {
  assert.equal(decodeValue({ $long: "5" }), 5);
  assert.deepEqual(decodeValue({ $int: "5" }), Value.int(5));
  assert.deepEqual(decodeValue({ $ulong: 5 }), Value.ulong(5n));
  assert.deepEqual(decodeValue({ $double: "1.5" }), Value.double(1.5));
  assert.deepEqual(decodeValue({ $timestamp: "+999999-01-01T00:00:00Z" }), new Value("timestamp", "+999999-01-01T00:00:00Z"));
});

test("values are written in the form of their type", () => {
  assert.equal(encodeValue(5n), 5);
  assert.deepEqual(encodeValue(-0), { $double: "-0" });
  assert.deepEqual(encodeValue(1e20), { $double: 1e20 });
  assert.deepEqual(encodeValue({ $int: 5 }), { $map: [["$int", 5]] }); // a map, no tag
  assert.deepEqual(encodeValue(bytes.buffer), { $binary: "AAH+/w==" });
  assert.deepEqual(encodeValue(new DataView(bytes.buffer, 1, 2)), { $binary: "Af4=" });
  assert.equal(JSON.stringify({ a: Value.int(5) }), '{"a":{"$int":5}}');
  assert.equal(`${Value.uuid("u")} ${Value.int(5) + 1}`, "u 6");
});

test("what no message can carry is refused", () => {
  for (const value of [undefined, () => 1, Symbol("s"), new Date(NaN), [undefined]]) {
    assert.throws(() => encodeValue(value), { name: "CrosstownError", code: "invalid_argument" });
  }
});

test("long bytes survive", () => {
  const long = new Uint8Array(300_000).map((_, i) => i * 31);
  assert.deepEqual(decodeValue(encodeValue(long)), long);
});

test("a key that is a prototype's name is a key", () => {
  const value = decodeValue(JSON.parse('{"__proto__": {"$int": 1}}'));
  assert.deepEqual(Object.entries(value), [["__proto__", Value.int(1)]]);
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
});
