// Typed user properties as texts that people read and write, and back.
import { Value } from "crosstown";

/** The types that a user property can have, those that people need first. */
export const types = [
  "string", "long", "double", "boolean", "timestamp", "uuid", "binary", "int", "short", "byte", "ulong", "uint", "ushort", "ubyte",
  "float", "decimal32", "decimal64", "decimal128", "symbol", "char", "null",
];

/** The type of a value as the client has it. */
export function typeOf(v) {
  if (v === null) return "null";
  if (v instanceof Value) return v.type;
  if (v instanceof Date) return "timestamp";
  if (v instanceof Uint8Array) return "binary";
  if (Array.isArray(v)) return "list";
  if (typeof v === "bigint") return "long";
  if (typeof v === "number") return Number.isInteger(v) && !Object.is(v, -0) ? "long" : "double";
  return typeof v === "object" ? "map" : typeof v;
}

/** What toValue reads. */
export function toText(v) {
  if (v === null) return "";
  if (v instanceof Value) return toText(v.value);
  if (v instanceof Date) return v.toISOString();
  if (v instanceof Uint8Array) return base64(v);
  return Object.is(v, -0) ? "-0" : typeof v === "object" ? JSON.stringify(plain(v), null, 2) : String(v);
}

/** The text of a message id, as the gateway compares it. */
export const idOf = (v) => (v instanceof Uint8Array ? Array.from(v, (b) => b.toString(16).padStart(2, "0")).join("") : toText(v));

/** A value of lists and maps as JSON can show it. */
export function plain(v) {
  if (v instanceof Value) return plain(v.value);
  if (v instanceof Date || v instanceof Uint8Array || typeof v === "bigint") return toText(v);
  if (v instanceof Map) return Object.fromEntries([...v].map(([k, e]) => [toText(k), plain(e)]));
  if (Array.isArray(v)) return v.map(plain);
  return v && typeof v === "object" ? Object.fromEntries(Object.entries(v).map(([k, e]) => [k, plain(e)])) : v;
}

const bits = { byte: 8, short: 16, int: 32, long: 64, ubyte: 8, ushort: 16, uint: 32, ulong: 64 };
const digits = { decimal32: 8, decimal64: 16, decimal128: 32 };

/** The value of a type that a text stands for. Throws what is wrong with it, for people. */
export function toValue(type, text) {
  const wrong = (what) => { throw new Error(`“${text}” is not a valid ${type}: ${what}`); };
  switch (type) {
    case "string": return text;
    case "null": return null;
    case "boolean": return text === "true" || (text === "false" ? false : wrong("write true or false."));
    case "float":
    case "double": {
      const n = text.trim() === "" ? NaN : Number(text);
      if (Number.isNaN(n) && text.trim() !== "NaN") wrong("write a number.");
      return type === "float" ? Value.float(n) : Number.isInteger(n) ? Value.double(n) : n;
    }
    case "timestamp": return Number.isNaN(Date.parse(text)) ? wrong("write it like 2026-01-31T12:00:00Z.") : new Date(text);
    case "uuid": return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text) ? Value.uuid(text) : wrong("write 32 hexadecimal digits in groups of 8-4-4-4-12.");
    case "binary": return fromBase64(text) ?? wrong("write base64.");
    case "symbol": return Value.symbol(text);
    case "char": return [...text].length === 1 ? Value.char(text) : wrong("write one character.");
  }
  if (digits[type]) return new RegExp(`^[0-9a-f]{${digits[type]}}$`, "i").test(text) ? new Value(type, text) : wrong(`write its bytes as ${digits[type]} hexadecimal digits.`);
  if (!/^-?\d+$/.test(text.trim())) wrong("write a whole number.");
  const n = BigInt(text.trim()), width = BigInt(bits[type]);
  const [least, most] = type.startsWith("u") ? [0n, (1n << width) - 1n] : [-(1n << (width - 1n)), (1n << (width - 1n)) - 1n];
  if (n < least || n > most) wrong(`it must be between ${least} and ${most}.`);
  if (type === "long") return Number.isSafeInteger(Number(n)) ? Number(n) : n;
  return new Value(type, type === "ulong" ? n : Number(n));
}

export function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** The bytes of a text in base64, undefined if it is none. */
export function fromBase64(text) {
  try {
    return Uint8Array.from(atob(text.replace(/\s/g, "")), (c) => c.charCodeAt(0));
  } catch {
    return undefined;
  }
}
