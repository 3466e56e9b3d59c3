// The namespace as a whole.
import { html, Empty, Loading, plainly } from "./ui.js";
import { counts, everything, load, names, roots, sum, totals } from "./catalog.js";
import { amount, bytes, rate, time } from "./format.js";
import { addressOf } from "./route.js";
import { usePoll } from "./poll.js";
import { mayList, session } from "./session.js";
import { Chart } from "./chart.js";
import { joined, useHistory, useSpan } from "./history.js";
import { hasPlugins, loadPlugins, plugins } from "./plugins.js";
import { hasRemotes, loadRemotes, remotes } from "./remotes.js";
import { hasSchedules, loadSchedules, schedules } from "./schedules.js";
import { hasWebhooks, loadWebhooks, webhooks } from "./webhooks.js";

export const Tile = ({ name, value, unit, bad }) => html`<div class=${"tile" + (bad ? " bad" : "")}><dt>${name}</dt><dd>${value}${unit && html` <small class="muted">${unit}</small>`}</dd></div>`;

export const flowSeries = [
  { key: "in", label: "In", color: "in", write: (n) => rate(n) + "/s" },
  { key: "out", label: "Out", color: "out", write: (n) => rate(n) + "/s" },
];

export function Home() {
  const large = names.value?.length > 200, history = useHistory(), [span, control] = useSpan();
  usePoll(() => load(), large ? 10 : 2, [large]);
  usePoll(() => Promise.allSettled([hasRemotes() && loadRemotes(), hasPlugins() && loadPlugins(), hasSchedules() && loadSchedules(), hasWebhooks() && loadWebhooks()]), 5, [], 5);
  if (!mayList()) return html`<${Restricted} />`;
  if (names.value === null) return html`<${Loading} />`;
  const all = roots(), every = everything(), queues = all.filter((e) => e.kind === "queue").length;
  const dead = sum((e) => counts(e).deadLetter + counts(e).transferDeadLetter, every);
  const troubles = attention(every);
  const busy = every.filter((e) => counts(e).active > 0 || e.flow.value.in > 0)
    .sort((a, b) => (b.flow.value.in ?? 0) - (a.flow.value.in ?? 0) || counts(b).active - counts(a).active).slice(0, 10);
  return html`<div class="page">
    <div><h1>Overview</h1><p class="muted">Queues, topics and subscriptions of the namespace ${session.value.namespace}.</p></div>
    <dl class="tiles">
      <${Tile} name="Queues" value=${amount(queues)} />
      <${Tile} name="Topics" value=${amount(all.length - queues)} />
      <${Tile} name="Subscriptions" value=${amount(sum((e) => counts(e).subscriptions))} />
      <${Tile} name="Active" value=${amount(sum((e) => counts(e).active, every))} />
      <${Tile} name="Scheduled" value=${amount(sum((e) => counts(e).scheduled))} />
      <${Tile} name="Dead letters" value=${amount(dead)} bad=${dead > 0} />
      <${Tile} name="Stored" value=${bytes(sum((e) => counts(e).bytes))} />
    </dl>
    <${Chart} title="Throughput" samples=${joined(history, totals.value)} series=${flowSeries} span=${span} control=${control} />
    <div class="halves">
      <section class="card" aria-labelledby="attention"><header><h2 id="attention">Needs attention</h2></header>
        ${troubles.length === 0 ? html`<${Empty} title="All is well">There are no dead letters, and nothing is damaged, disabled, full or unavailable.<//>` : html`<${Troubles} list=${troubles} />`}
      </section>
      <section class="card" aria-labelledby="busiest"><header><h2 id="busiest">Busiest</h2><a class="push" href="#/entities">All entities</a></header>
        ${busy.length === 0 ? html`<${Empty} title="It is quiet">${all.length === 0 ? "Create a queue or a topic with “New”, then send a message to it." : "No queue has messages now. Open a queue and press “Send”."}<//>` : html`<${Table} rows=${busy} />`}
      </section>
    </div>
  </div>`;
}

const full = 0.8; // part of its size from which an entity needs attention
const shown = 20; // troubles that are listed

/** What needs attention: {key, at, name, text, bad, weight}, the worst first. */
function attention(every) {
  const found = [];
  for (const e of every) {
    const c = counts(e), { Status, MaxSizeInMegabytes: size } = e.data.value?.settings ?? {}, at = (tab) => addressOf(e.name, tab);
    const say = (what, address, text, weight, bad = true) => found.push({ key: `${e.name} ${what}`, address, name: e.name, text, weight, bad });
    if (c.deadLetter > 0) say("dead", at("dead"), `${amount(c.deadLetter)} dead letter${c.deadLetter === 1 ? "" : "s"}`, c.deadLetter);
    if (c.transferDeadLetter > 0) say("transfer", at("transfer"), `${amount(c.transferDeadLetter)} transfer dead letter${c.transferDeadLetter === 1 ? "" : "s"}`, c.transferDeadLetter);
    if (c.damaged > 0) say("damaged", at(""), `${amount(c.damaged)} damaged message${c.damaged === 1 ? "" : "s"}`, Infinity);
    if (c.transfer > 0) say("parked", at(""), `${amount(c.transfer)} message${c.transfer === 1 ? "" : "s"} in transfer`, c.transfer, false);
    if (c.bytes >= full * size * 2 ** 20) say("full", at(""), `${Math.floor((100 * c.bytes) / (size * 2 ** 20))} % full`, Infinity);
    if (Status && Status !== "Active") say("status", at("settings"), Status, 1, false);
    if (/open/.test(e.data.value?.circuitBreaker)) say("breaker", at(""), `circuit breaker is ${e.data.value.circuitBreaker}`, Infinity);
    if (e.data.value?.availability === "Limited") say("limited", at(""), "a partition of the entity does not answer", Infinity);
  }
  for (const r of (hasRemotes() && remotes.value) || []) {
    const waiting = r.waiting.reduce((n, w) => n + w.messages, 0), parked = r.targets.reduce((n, t) => n + t.parked, 0);
    if (!r.connected) found.push({ key: `remote ${r.namespace} ${r.name}`, address: "#/remotes", name: r.name, text: `remote is away since ${time(r.since)}${waiting > 0 ? `, messages waiting: ${amount(waiting)}` : ""}`, weight: Infinity, bad: true });
    else if (parked > 0) found.push({ key: `parked ${r.namespace} ${r.name}`, address: "#/remotes", name: r.name, text: `remote refused ${amount(parked)} message${parked === 1 ? "" : "s"}`, weight: parked, bad: true });
  }
  for (const p of (hasPlugins() && plugins.value) || []) {
    if (p.condition !== "ready") found.push({ key: `plugin ${p.name}`, address: "#/plugins", name: p.name, text: `plugin is ${p.condition}`, weight: Infinity, bad: p.condition === "off" });
  }
  for (const p of (hasWebhooks() && webhooks.value.pushes) || []) {
    if (p.failing) found.push({ key: `push ${p.namespace} ${p.name}`, address: "#/webhooks", name: p.name, text: `push failed at ${time(p.lastErrorAt)}: ${p.lastError}`, weight: Infinity, bad: true });
  }
  for (const s of (hasSchedules() && schedules.value) || []) {
    if (s.error) found.push({ key: `schedule ${s.name}`, address: "#/schedules", name: s.name, text: `schedule does not send: ${plainly(s.error)}`, weight: Infinity, bad: true });
  }
  return found.sort((a, b) => b.weight - a.weight || a.key.localeCompare(b.key));
}

const Troubles = ({ list }) => html`<div class="scroll"><table aria-label="Needs attention"><tbody>${list.slice(0, shown).map((t) => html`<tr key=${t.key}>
    <td class="wrap"><a href=${t.address}>${t.name}</a></td><td><span class=${`badge ${t.bad ? "bad" : "warn"}`}>${t.text}</span></td></tr>`)}</tbody></table></div>
  ${list.length > shown && html`<p class="in muted">and ${amount(list.length - shown)} more</p>`}`;

const Table = ({ rows }) => html`<div class="scroll"><table aria-label="Busiest">
  <thead><tr><th>Name</th><th class="num">In</th><th class="num">Out</th><th class="num">Active</th><th class="num">Locked</th><th class="num" title="Receivers and sessions at this gateway">Consumers</th></tr></thead>
  <tbody>${rows.map((e) => html`<tr key=${e.name}>
    <td class="wrap"><a href=${addressOf(e.name)}>${e.name}</a></td>
    <td class="num">${rate(e.flow.value.in)}</td><td class="num">${e.kind === "topic" ? "–" : rate(e.flow.value.out)}</td>
    ${["active", "locked", "consumers"].map((k) => html`<td class="num">${e.kind === "topic" ? "–" : amount(counts(e)[k])}</td>`)}
  </tr>`)}</tbody></table></div>`;

function Restricted() {
  const { policy, rights, scope } = session.value;
  return html`<div class="page"><h1>Welcome</h1><section class="card"><${Empty} title=${`${policy} may ${rights.join(" and ")}${scope ? ` in ${scope}` : ""}`}>
    <p>The overview requires Manage on the namespace. ${rights.includes("Listen") ? "Open an entity by its name to browse and receive its messages." : "Open an entity by its name to send to it."}</p><//></section></div>`;
}
