// Writing messages: new ones, copies, and those for the filter tester.
import { html, Check, Field, Form, Icon, Input, open, Select, textOf, useState } from "./ui.js";
import { bus, changed } from "./session.js";
import { amount } from "./format.js";
import { now } from "./gateway.js";
import { instantOf, localTime, zone } from "./zone.js";
import { base64, fromBase64, toText, toValue, typeOf, types } from "./values.js";
import { utf8 } from "./body.js";

const texts = ["MessageId", "Label", "CorrelationId", "SessionId", "To", "ReplyTo", "ReplyToSessionId", "PartitionKey"];

/** What a form starts with. */
export const blank = () => ({ kind: "JSON", body: "", ContentType: "", emptySession: false, TimeToLive: "", ScheduledEnqueueTimeUtc: "", properties: [], ...Object.fromEntries(texts.map((name) => [name, ""])) });

/** What the gateway adds to a dead letter, and a new life does not need. */
const ofDeadLetters = new Set(["DeadLetterReason", "DeadLetterErrorDescription"]);

/** The form of a message that was received or peeked with its body in bytes. */
export function draftOf(message) {
  const form = blank(), bytes = message.binary ?? new Uint8Array(), text = utf8(bytes);
  for (const name of texts) form[name] = message.broker[name] === undefined ? "" : toText(message.broker[name]);
  form.ContentType = message.broker.ContentType ?? "";
  form.emptySession = message.broker.SessionId === "";
  form.TimeToLive = message.broker.TimeToLive === undefined ? "" : String(message.broker.TimeToLive);
  form.properties = Object.entries(message.properties).filter(([name]) => !ofDeadLetters.has(name)).map(([name, v]) => ({ name, type: typeOf(v), text: toText(v) }));
  if (message.value !== undefined || message.sequence !== undefined) return { ...form, kind: "As it was", original: message };
  if (text === undefined) return { ...form, kind: "Base64", body: base64(bytes) };
  return { ...form, kind: /[/+]json\b/i.test(form.ContentType) ? "JSON" : "Text", body: text };
}

/** A message that is sent as it was, but without what the gateway added. */
export function copyOf({ broker, properties, binary, value, sequence }) {
  const { ScheduledEnqueueTimeUtc, ...rest } = broker;
  return { broker: rest, properties: Object.fromEntries(Object.entries(properties).filter(([name]) => !ofDeadLetters.has(name))), binary, value, sequence };
}

/** The message that a form describes. Throws what is wrong, for people. */
export function messageOf(form) {
  const broker = {};
  for (const name of [...texts, "ContentType"]) if (form[name] !== "") broker[name] = form[name];
  if (form.SessionId === "" && form.emptySession) broker.SessionId = "";
  if (form.TimeToLive !== "") broker.TimeToLive = Number(form.TimeToLive);
  if (form.ScheduledEnqueueTimeUtc !== "") broker.ScheduledEnqueueTimeUtc = instantOf(form.ScheduledEnqueueTimeUtc);
  const properties = {};
  for (const { name, type, text } of form.properties) {
    if (name === "") throw new Error("A user property has no name.");
    if (Object.hasOwn(properties, name)) throw new Error(`There are two user properties ${name}.`);
    properties[name] = toValue(type, text);
  }
  return { broker, properties, ...bodyOf(form, broker) };
}

function bodyOf({ kind, body, original }, broker) {
  switch (kind) {
    case "As it was":
      return { value: original.value, sequence: original.sequence };
    case "Base64": {
      const binary = fromBase64(body);
      if (!binary) throw new Error("The body is not base64.");
      return { binary };
    }
    case "JSON":
      if (body.trim() === "") return {};
      try {
        JSON.parse(body);
      } catch (e) {
        throw new Error(`The body is not JSON: ${e.message}`);
      }
      broker.ContentType ||= "application/json";
      return { text: body }; // to the letter, which a parsed value would not be
  }
  return { text: body };
}

/** The parts of a form about a message; `short` puts last what filters seldom look at. */
export function Fields({ form, set, short }) {
  const put = (name) => (v) => set({ ...form, [name]: v });
  const input = (name, more) => html`<${Input} label=${name} value=${form[name]} set=${put(name)} ...${more} />`;
  const kinds = form.original ? ["As it was", "JSON", "Text", "Base64"] : ["JSON", "Text", "Base64"];
  const body = html`<div class="fields"><${Select} label="Kind" value=${form.kind} set=${put("kind")} options=${kinds} />${input("ContentType", { placeholder: { JSON: "application/json", Text: "text/plain; charset=utf-8" }[form.kind] })}</div>
      ${form.kind === "As it was" ? html`<p class="muted">The AMQP ${form.original.value !== undefined ? "value" : "sequence"} is sent unchanged.</p>`
      : html`<${Field} label="Content">${(a) => html`<textarea ...${a} rows="7" spellcheck=${false} value=${form.body} onInput=${(e) => put("body")(e.target.value)}></textarea>`}<//>`}`;
  return html`
    ${!short && html`<fieldset><legend>Body</legend>${body}</fieldset>`}
    <${Properties} list=${form.properties} set=${put("properties")} />
    ${short && html`<div class="fields">${input("Label")}${input("MessageId")}${input("CorrelationId")}${input("To")}</div>`}
    ${short && html`<details><summary>Body</summary><div class="form">${body}</div></details>`}
    <details open=${!short && (form.emptySession || texts.some((n) => form[n] !== ""))}><summary>${short ? "More broker properties" : "Broker properties"}</summary>
      <div class="fields">${texts.filter((n) => !short || !["Label", "MessageId", "CorrelationId", "To"].includes(n)).map((n) => input(n))}
        ${!short && html`${input("TimeToLive", { label: "Time to live, in seconds", type: "number", min: "0.001", step: "any", placeholder: "the entity's" })}
        <${Input} label="Schedule for" type="datetime-local" step="1" min=${localTime(new Date(now()))} value=${form.ScheduledEnqueueTimeUtc} set=${put("ScheduledEnqueueTimeUtc")} hint=${`${zone.value}; empty sends now`} />`}
      </div>${form.SessionId === "" && html`<${Check} label="SessionId is empty, not missing" value=${form.emptySession} set=${put("emptySession")} />`}</details>`;
}

/** User properties with their types. */
export function Properties({ list, set, legend = "User properties" }) {
  const change = (i, part) => set(list.map((p, at) => (at === i ? { ...p, ...part } : p)));
  return html`<fieldset><legend>${legend}</legend><div class="properties">
    ${list.map((p, i) => html`<div class="property">
      <input aria-label=${`Name of property ${i + 1}`} placeholder="name" value=${p.name} onInput=${(e) => change(i, { name: e.target.value })} />
      <select aria-label=${`Type of ${p.name || `property ${i + 1}`}`} value=${p.type} onChange=${(e) => change(i, { type: e.target.value })}>${types.map((t) => html`<option>${t}</option>`)}</select>
      ${p.type === "boolean"
        ? html`<select aria-label=${`Value of ${p.name}`} value=${p.text} onChange=${(e) => change(i, { text: e.target.value })}><option value="">choose</option><option>true</option><option>false</option></select>`
        : html`<input aria-label=${`Value of ${p.name || `property ${i + 1}`}`} placeholder="value" disabled=${p.type === "null"} value=${p.text} onInput=${(e) => change(i, { text: e.target.value })} />`}
      <button type="button" class="button quiet" aria-label=${`Remove ${p.name || `property ${i + 1}`}`} onClick=${() => set(list.filter((_, at) => at !== i))}><${Icon} name="close" /></button>
    </div>`)}
    <div><button type="button" class="button small" onClick=${() => set([...list, { name: "", type: "string", text: "" }])}><${Icon} name="plus" />Add property</button></div>
  </div></fieldset>`;
}

/** A dialog that writes a message and gives it to `use`; resolves to what that returns. */
export const write = (title, action, draft, use, { note, repeats } = {}) => open(title, (close) => html`<${Writing} ...${{ action, draft, use, note, repeats, close }} />`, true);

function Writing({ action, draft, use, note, repeats, close }) {
  const [form, set] = useState(draft), [times, setTimes] = useState(1);
  return html`<${Form} action=${action} submit=${async () => close(await use(messageOf(form), Number(times)))} cancel=${() => close()}>
    ${note && html`<p class="note">${note}</p>`}<${Fields} form=${form} set=${set} />
    ${repeats && html`<${Input} label="How many times" type="number" min="1" max="10000" required value=${times} set=${setTimes} />`}<//>`;
}

const together = 100; // messages in one call

/** Sends a message some times; says by which number it can be found. */
const sendTo = (entity) => async (message, times) => {
  const numbers = [], done = message.broker.ScheduledEnqueueTimeUtc ? "Scheduled" : "Sent";
  try {
    while (numbers.length < times) numbers.push(...await bus().send(entity, Array(Math.min(together, times - numbers.length)).fill(message)));
  } catch (e) {
    if (numbers.length === 0) throw e;
    throw new Error(`${amount(numbers.length)} of ${amount(times)} are sent, then: ${textOf(e)}`);
  } finally {
    if (numbers.length > 0) changed();
  }
  const stored = numbers.filter((n) => n !== 0);
  if (stored.length === 0) throw new Error("The message was dropped as a duplicate: the entity already got a message with this id.");
  const dropped = times - stored.length;
  return times === 1 ? `${done} with number ${stored[0]}.` : `${done} ${amount(stored.length)} times.${dropped > 0 ? ` Duplicate detection dropped ${amount(dropped)}.` : ""}`;
};

const sending = (draft) => (entity, message) => write(`Send to ${entity}`, "Send", draft(message), sendTo(entity), { repeats: true });

export const send = sending(blank);
export const editAndSend = sending(draftOf);
