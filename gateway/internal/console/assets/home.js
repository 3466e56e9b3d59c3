// The namespace as a whole.
import { html, Empty, Loading } from "./ui.js";
import { load, names, roots, sum, totals } from "./catalog.js";
import { amount, bytes, rate } from "./format.js";
import { addressOf } from "./route.js";
import { usePoll } from "./poll.js";
import { mayList, session } from "./session.js";
import { Chart } from "./chart.js";

export const Tile = ({ name, value, unit, bad }) => html`<div class=${"tile" + (bad ? " bad" : "")}><dt>${name}</dt><dd>${value}${unit && html` <small class="muted">${unit}</small>`}</dd></div>`;

export const flowSeries = [
  { key: "in", label: "In", color: "in", write: (n) => rate(n) + "/s" },
  { key: "out", label: "Out", color: "out", write: (n) => rate(n) + "/s" },
];

export function Home() {
  const large = names.value?.length > 200;
  usePoll(() => load(), large ? 10 : 2, [large]);
  if (!mayList()) return html`<${Restricted} />`;
  if (names.value === null) return html`<${Loading} />`;
  const all = roots();
  const queues = all.filter((e) => e.kind === "queue").length;
  const dead = sum((e) => counts(e).deadLetter);
  const troubled = all.filter((e) => counts(e).deadLetter + counts(e).transferDeadLetter > 0 || e.data.value?.settings.Status !== "Active")
    .sort((a, b) => counts(b).deadLetter - counts(a).deadLetter).slice(0, 10);
  const busy = all.filter((e) => counts(e).active > 0 || e.flow.value.in > 0)
    .sort((a, b) => (b.flow.value.in ?? 0) - (a.flow.value.in ?? 0) || counts(b).active - counts(a).active).slice(0, 10);
  return html`<div class="page">
    <div><h1>Overview</h1><p class="muted">Queues and topics of the namespace ${session.value.namespace}. Messages of subscriptions are shown with their topics.</p></div>
    <dl class="tiles">
      <${Tile} name="Queues" value=${amount(queues)} />
      <${Tile} name="Topics" value=${amount(all.length - queues)} />
      <${Tile} name="Active" value=${amount(sum((e) => counts(e).active))} />
      <${Tile} name="Scheduled" value=${amount(sum((e) => counts(e).scheduled))} />
      <${Tile} name="Dead letters" value=${amount(dead)} bad=${dead > 0} />
      <${Tile} name="Stored" value=${bytes(sum((e) => counts(e).bytes))} />
    </dl>
    <${Chart} title="Throughput" samples=${totals.value} series=${flowSeries} />
    <div class="halves">
      <section class="card"><header><h2>Needs attention</h2></header>
        ${troubled.length === 0 ? html`<${Empty} title="All is well">No queue has dead letters, and nothing is disabled.<//>` : html`<${Table} rows=${troubled} />`}
      </section>
      <section class="card"><header><h2>Busiest</h2></header>
        ${busy.length === 0 ? html`<${Empty} title="It is quiet">${all.length === 0 ? "Make a queue or a topic with “New”, then send a message to it." : "No queue has messages now. Open one and press “Send”."}<//>` : html`<${Table} rows=${busy} />`}
      </section>
    </div>
  </div>`;
}

const counts = (e) => e.data.value?.counts ?? {};

const Table = ({ rows }) => html`<div class="scroll"><table>
  <thead><tr><th>Name</th><th class="num">In</th><th class="num">Out</th><th class="num">Active</th><th class="num">Dead letters</th></tr></thead>
  <tbody>${rows.map((e) => html`<tr key=${e.name}>
    <td class="wrap"><a href=${addressOf(e.name)}>${e.name}</a>${e.data.value.settings.Status !== "Active" && html` <span class="badge warn">${e.data.value.settings.Status}</span>`}</td>
    <td class="num">${rate(e.flow.value.in)}</td><td class="num">${e.kind === "queue" ? rate(e.flow.value.out) : "–"}</td>
    <td class="num">${amount(counts(e).active)}</td>
    <td class="num">${counts(e).deadLetter > 0 ? html`<a href=${addressOf(e.name, "dead")}>${amount(counts(e).deadLetter)}</a>` : "0"}</td>
  </tr>`)}</tbody></table></div>`;

function Restricted() {
  const { policy, rights, scope } = session.value;
  return html`<div class="page"><h1>Welcome</h1><section class="card"><${Empty} title=${`${policy} may ${rights.join(" and ")}${scope ? ` in ${scope}` : ""}`}>
    <p>The overview needs Manage for the namespace. ${rights.includes("Listen") ? "Open an entity by its name to browse and receive its messages." : "Open an entity by its name to send to it."}</p><//></section></div>`;
}
