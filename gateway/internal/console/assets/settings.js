// The settings of entities: to look at, to change, and for new ones.
import { html, Check, Form, Input, open, Select, useState } from "./ui.js";
import { bus, changed } from "./session.js";
import { Policies } from "./policies.js";
import { duration, parseDuration } from "./format.js";

const all = ["queue", "topic", "subscription"], stored = ["queue", "subscription"], roots = ["queue", "topic"];
const statuses = ["Active", "Disabled", "SendDisabled", "ReceiveDisabled"];

/**
 * In the order of the form: name, what it is, how it is written, which kinds
 * have it, whether it is fixed once the entity exists. Settings that the gateway
 * keeps for the SDKs, and that change nothing, are not here.
 */
const table = [
  { name: "Status", label: "Status", type: statuses, kinds: all },
  { name: "LockDuration", label: "Lock duration", type: "duration", kinds: stored, hint: "1 s to 24 h" },
  { name: "MaxDeliveryCount", label: "Deliveries before dead-lettering", type: "number", kinds: stored, hint: "1 to 2,147,483,647" },
  { name: "DefaultMessageTimeToLive", label: "Time to live of messages", type: "duration", kinds: all, hint: "such as 14 d, or forever" },
  { name: "DeadLetteringOnMessageExpiration", label: "Dead-letter expired messages", type: "boolean", kinds: stored },
  { name: "DeadLetteringOnFilterEvaluationExceptions", label: "Dead-letter messages on which a rule fails", type: "boolean", kinds: ["subscription"] },
  { name: "RequiresSession", label: "Sessions", type: "boolean", kinds: stored, fixed: true },
  { name: "RequiresDuplicateDetection", label: "Duplicate detection", type: "boolean", kinds: roots, fixed: true },
  { name: "DuplicateDetectionHistoryTimeWindow", label: "Duplicate detection window", type: "duration", kinds: roots, hint: "5 s to 7 d" },
  { name: "EnablePartitioning", label: "Partitioned", type: "boolean", kinds: roots, fixed: true },
  { name: "ForwardTo", label: "Forward messages to", type: "text", kinds: stored, hint: "a queue or topic" },
  { name: "ForwardDeadLetteredMessagesTo", label: "Forward dead letters to", type: "text", kinds: stored },
  { name: "MaxSizeInMegabytes", label: "Maximum size, in MiB", type: "number", kinds: roots },
  { name: "MaxMessageSizeInKilobytes", label: "Maximum size of a message, in KiB", type: "number", kinds: roots, hint: "256, or 1,024 to 102,400" },
  { name: "AutoDeleteOnIdle", label: "Delete after idling for", type: "duration", kinds: all, hint: "at least 5 min, or forever" },
  { name: "UserMetadata", label: "Notes", type: "text", kinds: all, hint: "up to 1,024 characters" },
];

const of = (kind) => table.filter((s) => s.kinds.includes(kind));

/** Settings as a form has them: durations for people, everything else but switches as text. */
const draftOf = (kind, settings) => Object.fromEntries(of(kind).map(({ name, type }) => {
  const v = settings[name];
  return [name, type === "boolean" ? v ?? false : v === undefined ? "" : type === "duration" ? duration(v) : String(v)];
}));

/** What a form says otherwise than `before`, as the management API writes it. */
function changesOf(kind, form, before) {
  const changes = {};
  for (const { name, label, type } of of(kind)) {
    const v = form[name];
    if (v === before[name]) continue;
    if (type === "number" && !/^\d+$/.test(v)) throw new Error(`${label}: write a whole number.`);
    changes[name] = type === "duration" ? parseDuration(v) : type === "number" ? Number(v) : v;
  }
  return changes;
}

function SettingFields({ kind, form, set, existing }) {
  const put = (name) => (v) => set({ ...form, [name]: v });
  const fixed = (s) => existing && s.fixed;
  const fields = of(kind).filter((s) => s.type !== "boolean"), switches = of(kind).filter((s) => s.type === "boolean");
  return html`<div class="fields">
      ${fields.map((s) => (Array.isArray(s.type)
        ? html`<${Select} label=${s.label} value=${form[s.name]} set=${put(s.name)} options=${s.type} />`
        : html`<${Input} label=${s.label} hint=${s.hint} value=${form[s.name]} set=${put(s.name)} placeholder=${existing || s.type === "text" ? undefined : "default"} inputmode=${s.type === "number" ? "numeric" : undefined} />`))}
    </div>
    <div class="fields">${switches.map((s) => html`<${Check} label=${s.label} value=${form[s.name]} set=${put(s.name)} disabled=${fixed(s)} hint=${fixed(s) ? "fixed when it was created" : undefined} />`)}</div>`;
}

/** The settings of an entity that exists. */
export function Settings({ entry }) {
  const { kind, name, data } = entry;
  const [before, setBefore] = useState(() => draftOf(kind, data.value.settings));
  const [form, set] = useState(before);
  const submit = async () => {
    const changes = changesOf(kind, form, before);
    if (Object.keys(changes).length === 0) throw new Error("You have changed no setting.");
    const updated = await bus().update(name, changes);
    setBefore(draftOf(kind, updated.settings));
    set(draftOf(kind, updated.settings));
    changed();
  };
  return html`<section class="card"><header><h2>Settings</h2></header><div class="in">
    <${Form} action="Save" submit=${submit}><${SettingFields} kind=${kind} form=${form} set=${set} existing /><//></div></section>
    ${kind !== "subscription" && html`<${Policies} entry=${entry} />`}`;
}

/** Asks for a new queue or topic, or a subscription of a topic; resolves to what was made. */
export const createEntity = (topic) => open(topic ? `New subscription of ${topic}` : "New queue or topic", (close) => html`<${Creating} topic=${topic} close=${close} />`, true);

const initial = (kind) => ({ ...draftOf(kind, {}), Status: "Active", DeadLetteringOnFilterEvaluationExceptions: true });

function Creating({ topic, close }) {
  const [kind, setKind] = useState(topic ? "subscription" : "queue"), [name, setName] = useState("");
  const [form, set] = useState(initial(kind));
  const choose = (k) => {
    setKind(k);
    set(initial(k));
  };
  const submit = async () => {
    const path = topic ? `${topic}/Subscriptions/${name.trim()}` : name.trim();
    const made = await bus().create(kind, path, changesOf(kind, form, initial(kind)));
    changed();
    close(made);
  };
  return html`<${Form} action=${`Create ${kind}`} submit=${submit} cancel=${() => close()}>
    ${!topic && html`<${Select} label="Kind" value=${kind} set=${choose} options=${[["queue", "Queue: each message goes to one receiver"], ["topic", "Topic: each subscription gets a copy"]]} />`}
    <${Input} label="Name" required autofocus value=${name} set=${setName} placeholder=${topic ? "all" : "orders"} hint=${topic ? "Letters, digits, . - _" : "Letters, digits, . - _ / ~"} />
    <details><summary>Settings</summary><${SettingFields} kind=${kind} form=${form} set=${set} /></details><//>`;
}
