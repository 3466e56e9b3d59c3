// What a message's body is, and the ways to look at it.
import { html, Copy, useEffect, useMemo, useRef, useState } from "./ui.js";
import { bytes as size } from "./format.js";
import { save } from "./files.js";
import { base64, plain, toText, typeOf } from "./values.js";

const strict = new TextDecoder("utf-8", { fatal: true });
const loose = new TextDecoder("utf-8");
const shown = 256 * 1024; // bytes; more would make the page slow

/** The bytes as text, undefined if they are not UTF-8. */
export function utf8(bytes) {
  try {
    return strict.decode(bytes);
  } catch {
    return undefined;
  }
}

/** What a body begins with, on one line. */
export function preview({ value, sequence, binary }, most = 120) {
  if (value !== undefined || sequence !== undefined) return (toText(value ?? sequence) || "null").slice(0, most).replaceAll(/\s+/g, " ");
  if (!binary?.length) return "";
  const text = utf8(binary.length > 4 * most ? binary.subarray(0, 4 * most) : binary) ?? loose.decode(binary.subarray(0, 4 * most));
  return /[\0-\x08\x0e-\x1f\ufffd]/.test(text.slice(0, most)) ? size(binary.length) : text.slice(0, most).replaceAll(/\s+/g, " ");
}

/** All of a body as text, to be searched. */
export const bodyText = ({ value, sequence, binary }) => (value !== undefined || sequence !== undefined ? toText(value ?? sequence) : binary ? loose.decode(binary) : "");

/** The parts of a message's body as texts by the way to look at it; the best comes first. */
export function waysToShow(message) {
  if (message.value !== undefined) {
    const text = toText(message.value);
    return { [`AMQP ${typeOf(message.value)}`]: text };
  }
  if (message.sequence !== undefined) return { "AMQP sequence": JSON.stringify(plain(message.sequence), null, 2) };
  const all = message.binary ?? new Uint8Array();
  const bytes = all.subarray(0, shown);
  const text = utf8(all), ways = {};
  const pretty = text !== undefined && all.length <= shown ? prettyJSON(text) : undefined;
  if (pretty !== undefined) ways.JSON = pretty;
  const xml = text !== undefined && all.length <= shown ? prettyXML(text) : undefined;
  if (xml !== undefined) ways.XML = xml;
  if (text !== undefined) ways.Text = text.slice(0, shown);
  ways.Hex = bytes;
  ways.Base64 = base64(bytes);
  return ways;
}

/** JSON over several lines; undefined if the text is no object or array. Long numbers keep their digits. */
function prettyJSON(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  let out = "", depth = 0, opened = false;
  for (const token of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g)) {
    const t = token[0], line = () => { out += "\n" + "  ".repeat(depth); };
    if (t === "}" || t === "]") {
      depth--;
      if (!opened) line();
      out += t;
      opened = false;
    } else {
      if (opened) line();
      opened = t === "{" || t === "[";
      out += t === ":" ? ": " : t;
      if (opened) depth++;
      if (t === ",") line();
    }
  }
  return out;
}

const xmlTokens = /<!--.*?-->|<!\[CDATA\[.*?\]\]>|<(?:[^<>"']|"[^"]*"|'[^']*')*>|[^<]+/gs;

/** XML with each element on a line; undefined if it is not. An element with text in it stays on its line from there on. */
function prettyXML(text) {
  const tokens = /^\s*</.test(text) ? text.match(xmlTokens) : null;
  if (tokens?.join("") !== text) return undefined;
  const lines = [], open = [];
  let inline = 0; // depth of the element that has text
  for (const t of tokens) {
    const tag = /^<(\/?)([^\s/>!?]+).*?(\/?)>$/s.exec(t), ends = tag?.[1] === "/";
    if (!tag && !t.startsWith("<") && t.trim() === "" && !inline) continue;
    if (!t.startsWith("<") || t.startsWith("<![CDATA[")) {
      if (open.length === 0) return undefined;
      inline ||= open.length;
    }
    if (ends && open.pop() !== tag[2]) return undefined;
    const empty = ends && lines.at(-1)?.opens === tag[2];
    if (inline || empty) lines.at(-1).text += t;
    else lines.push({ depth: open.length, text: t });
    lines.at(-1).opens = undefined;
    if (tag && !ends && !tag[3]) {
      open.push(tag[2]);
      lines.at(-1).opens = tag[2];
    }
    if (open.length < inline) inline = 0;
  }
  if (open.length > 0) return undefined;
  return lines.map(({ depth, text: line }) => "  ".repeat(depth) + line).join("\n");
}

/** As hexdump -C has it, with 16, 8 or 4 bytes on a line of at most `width` characters. */
function hex(bytes, width) {
  const lines = [], size = [16, 8].find((n) => 4 * n + 9 <= width) ?? 4;
  for (let at = 0; at < bytes.length; at += size) {
    const line = bytes.subarray(at, at + size);
    const digits = Array.from(line, (b) => b.toString(16).padStart(2, "0")).join(" ");
    const text = Array.from(line, (b) => (b > 31 && b < 127 ? String.fromCharCode(b) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(3 * size - 1)}  ${text}`);
  }
  return lines.join("\n");
}

export function Body({ message }) {
  const ways = useMemo(() => waysToShow(message), [message]);
  const names = Object.keys(ways);
  const [chosen, choose] = useState();
  const way = names.includes(chosen) ? chosen : names[0];
  const length = message.binary?.length, box = useRef(), [width, setWidth] = useState(80);
  useEffect(() => {
    const watch = new ResizeObserver(([{ target }]) => setWidth(Math.floor((target.clientWidth - 28) / target.firstElementChild.clientWidth * 80)));
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const text = way === "Hex" ? hex(ways.Hex, width) : ways[way];
  return html`<section class="body" ref=${box}><code class="ruler" aria-hidden="true"></code>
    <header>
      <h3>Body</h3><span class="muted">${length === undefined ? "" : size(length)}${length > shown ? `, the first ${size(shown)} are shown` : ""}</span>
      ${length > 0 && html`<button type="button" class="button small" onClick=${() => save(`message-${message.sequenceNumber}`, [message.binary])}>Download</button>`}
      ${text !== "" && html`<${Copy} class="small" what="the body" text=${text} />`}
      <div class="segments" role="group" aria-label="Show the body as">
        ${names.map((n) => html`<button type="button" aria-pressed=${n === way} onClick=${() => choose(n)}>${n}</button>`)}
      </div>
    </header>
    ${text === "" ? html`<p class="muted">The message has no body.</p>` : html`<pre tabindex="0" role="group" aria-label=${`Body as ${way}`}>${text}</pre>`}
  </section>`;
}
