// Messages as files: a line of JSON each, in the form of the WebSocket protocol.
import { decodeValue, encodeValue } from "crosstown";
import { base64, fromBase64 } from "./values.js";

const map = (o, f) => Object.fromEntries(Object.entries(o ?? {}).map(([k, v]) => [k, f(v)]));

export const lineOf = ({ broker, properties, binary, value, sequence }) => JSON.stringify({
  broker: map(broker, encodeValue), properties: map(properties, encodeValue), binary: binary && base64(binary),
  value: value === undefined ? undefined : encodeValue(value), sequence: sequence?.map((list) => list.map(encodeValue)),
});

/** The message of a line, to be sent. Throws what is wrong with it. */
function messageOf(line, number) {
  const wrong = (what) => { throw new Error(`Line ${number} ${what}: it must be a message as this page downloads it.`); };
  let m;
  try {
    m = JSON.parse(line);
  } catch (e) {
    wrong(`is not JSON (${e.message})`);
  }
  if (m === null || typeof m !== "object" || Array.isArray(m)) wrong("is no object");
  const { broker, properties, binary, value, sequence, text, json, ...others } = m;
  if (Object.keys(others).length > 0) wrong(`has the member ${Object.keys(others)[0]}`);
  const bytes = binary === undefined ? undefined : fromBase64(binary) ?? wrong("has a body that is not base64");
  const { ScheduledEnqueueTimeUtc: due, ...rest } = map(broker, decodeValue);
  if (due && new Date(due) > new Date()) rest.ScheduledEnqueueTimeUtc = due;
  return { broker: rest, properties: map(properties, decodeValue), text, json, binary: bytes, value: value === undefined ? undefined : decodeValue(value), sequence: sequence?.map((list) => list.map(decodeValue)) };
}

export const messagesOf = (text) => text.split("\n").map((line, i) => [line, i + 1]).filter(([line]) => line.trim()).map(([line, n]) => messageOf(line, n));

/** Has the browser save something as a file. */
export function save(name, parts, type = "application/octet-stream") {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const saveMessages = (entity, messages) => save(`${entity.replaceAll(/[^\w.-]+/g, "-")}.jsonl`, messages.map((m) => lineOf(m) + "\n"), "application/x-ndjson");
