// The namespaces of the gateway, for operators.
import { html, Action, Check, confirm, Empty, Form, Icon, Input, Loading, open, textOf, useState } from "./ui.js";
import { changed, enter, mayRun, session } from "./session.js";
import { ask } from "./adminapi.js";
import { go, route } from "./route.js";
import { amount, time } from "./format.js";
import { usePoll } from "./poll.js";
import { Access, showAccess } from "./access.js";
import { Clock } from "./clock.js";
import { Faults } from "./faults.js";

const page = 1000, most = 100; // namespaces asked for at once; rows that are drawn

const at = (name) => `namespaces/${encodeURIComponent(name)}`;
const addressOf = (name) => `#/${at(name)}`;

/** All of them; entities are counted in those that are drawn first. */
async function load() {
  const all = [];
  for (let next = ""; next !== undefined;) {
    const some = await ask(`namespaces?${next ? `top=${page}` : `top=${most}&entities=true`}&after=${encodeURIComponent(next)}`);
    all.push(...some.namespaces);
    next = some.next;
  }
  return all;
}

export function Namespaces() {
  const [all, setAll] = useState(), [problem, setProblem] = useState(), [search, setSearch] = useState("");
  const allowed = mayRun(), large = all?.length > most;
  const look = async () => {
    if (!allowed) return;
    try {
      setAll(await load());
      setProblem();
    } catch (e) {
      setProblem(e);
      throw e;
    }
  };
  usePoll(look, large ? 15 : 3, [large]);
  const chosen = all?.find((n) => n.name === route.value.name);
  const found = all?.filter((n) => [n.name, ...n.hosts].some((s) => s.toLowerCase().includes(search.toLowerCase()))) ?? [];
  return html`<div class="page"><div class="head">
      <div class="title"><h1>Namespaces</h1>
        <p class="muted">Each namespace has its own policies, queues, topics and quotas. The list counts only connections to this gateway.</p></div>
      ${allowed && html`<${Action} class="primary" icon="plus" run=${() => create(look)}>New namespace<//>`}</div>
    ${!allowed ? html`<section class="card"><${Empty} title="Not with this key">Namespaces require Manage on the gateway's own namespace.<//></section>`
    : !all ? html`<section class="card">${problem ? html`<${Empty} title="That did not work">${textOf(problem)}<//>` : html`<${Loading} />`}</section>`
    : html`${chosen && html`<${One} key=${chosen.name} of=${chosen} again=${look} />`}
      <section class="card">
        ${large && html`<header><div class="search"><${Icon} name="search" /><input type="search" aria-label="Search namespaces" placeholder="Search" value=${search} onInput=${(e) => setSearch(e.target.value)} /></div>
          <span class="muted">${amount(Math.min(found.length, most))} of ${amount(all.length)} shown</span></header>`}
        <${List} list=${found.slice(0, most)} chosen=${chosen} /></section>
      ${problem && html`<p class="note bad" role="alert">${textOf(problem)}</p>`}
`}
  </div>`;
}

/** The hosts that it was given, besides those that every namespace has. */
const given = ({ name, hosts }) => hosts.filter((h) => h !== `${name}.localhost`.toLowerCase() && h !== `${name}.servicebus.windows.net`.toLowerCase());

const kinds = { own: "the gateway's own", configured: "configured", created: "" };

const List = ({ list, chosen }) => html`<div class="scroll"><table aria-label="Namespaces">
  <thead><tr><th>Name</th><th class="tight"></th><th>Hosts</th><th class="num">Entities</th><th class="num">Connections</th><th class="num" title="Maximum total size of the namespace's queues and topics">Megabytes</th><th class="tight">Created</th></tr></thead>
  <tbody>${list.map((n) => html`<tr key=${n.name} class=${n === chosen && "chosen"}>
    <td class="wrap"><a href=${addressOf(n.name)} aria-current=${n === chosen ? "true" : undefined}>${n.name}</a></td>
    <td>${kinds[n.kind] && html`<span class="badge">${kinds[n.kind]}</span> `}${n.virtualTime && html`<span class="badge warn">virtual time</span> `}${n.allowFaults && html`<span class="badge warn">faults</span> `}${n.name === session.value.namespace && html`<span class="badge accent">you are here</span>`}</td>
    <td class="wrap">${given(n).join(", ") || "–"}</td>
    <td class="num">${within(n.entities, n.quotas.maxEntities)}</td><td class="num">${within(n.connections, n.quotas.maxConnections)}</td>
    <td class="num">${within(n.megabytes, n.quotas.maxSizeMegabytes)}</td><td class="tight">${time(n.createdAt)}</td></tr>`)}</tbody>
</table></div>`;

const within = (count, quota) => (quota > 0 ? `${amount(count)} of ${amount(quota)}` : amount(count));

/** One namespace, with what can be done to it. */
function One({ of, again }) {
  const { name, kind } = of, made = kind === "created";
  return html`<section class="card" aria-labelledby="namespace"><header><${Icon} name="namespace" /><h2 id="namespace">${name}</h2>
      <div class="push actions">
        ${name !== session.value.namespace && html`<${Action} class="primary" icon="right" run=${() => work(name)}>Work here<//>`}
        ${made && html`<${Action} icon="edit" run=${() => change(of, again)}>Change<//>`}
        <${Action} class="danger" icon="empty" run=${() => reset(name)}>Reset<//>
        ${made && html`<${Action} class="danger" icon="trash" run=${() => remove(name, again)}>Delete<//>`}
      </div></header>
    <p class="in">Clients reach the namespace through any host of the gateway with a policy of the namespace, and through the hosts ${of.hosts.map((h, i) => html`${i > 0 && ", "}<code>${h}</code>`)}.</p>
    ${made ? html`<${Access} path=${at(name)} name=${name} />` : html`<p class="in muted">This namespace is in the gateway's configuration, with its policies and quotas.</p>`}
  </section>
  ${of.virtualTime && html`<${Clock} path=${`${at(name)}/clock`} />`}
  ${of.allowFaults && html`<${Faults} path=${`${at(name)}/faults`} />`}`;
}

async function work(name) {
  await enter(name);
  go("#/");
  return `You work in ${name}.`;
}

/** What a form says of hosts and quotas, as the gateway takes it. */
const wishOf = ({ hosts, entities, connections, megabytes }) => ({
  hosts: hosts.split(/[\s,]+/).filter(Boolean),
  quotas: { maxEntities: Number(entities), maxConnections: Number(connections), maxSizeMegabytes: Number(megabytes) },
});

const Fields = ({ form, set }) => {
  const put = (name) => (v) => set({ ...form, [name]: v });
  const quota = { type: "number", min: "0", required: true, hint: "0: as many as there are" };
  return html`<${Input} label="Hosts" value=${form.hosts} set=${put("hosts")} placeholder="bus.example.com" hint="Additional host names for clients; optional" />
    <div class="fields"><${Input} label="Entities at most" ...${quota} value=${form.entities} set=${put("entities")} />
      <${Input} label="Maximum connections" ...${quota} value=${form.connections} set=${put("connections")} />
      <${Input} label="Maximum megabytes" ...${quota} hint="0: any size" value=${form.megabytes} set=${put("megabytes")} /></div>`;
};

async function create(again) {
  const made = await open("New namespace", (close) => html`<${Creating} close=${close} />`);
  if (!made) return;
  go(addressOf(made.name));
  await Promise.all([again(), showAccess(`${made.name} is ready`, made.policies)]);
}

function Creating({ close }) {
  const [name, setName] = useState(""), [form, set] = useState({ hosts: "", entities: "0", connections: "0", megabytes: "0" });
  const [virtualTime, setVirtual] = useState(false), [allowFaults, setFaults] = useState(false);
  const submit = async () => close(await ask(at(name.trim()), { method: "PUT", headers: { "If-None-Match": "*" }, body: JSON.stringify({ ...wishOf(form), virtualTime, allowFaults }) }));
  return html`<${Form} action="Create namespace" submit=${submit} cancel=${() => close()}>
    <${Input} label="Name" required autofocus value=${name} set=${setName} placeholder="invoices" hint="Letters, digits and hyphens. The namespace gets a policy with random keys." />
    <details><summary>Hosts and quotas</summary><div class="form"><${Fields} form=${form} set=${set} /></div></details>
    <details><summary>For tests</summary><div class="form"><${Check} label="Virtual time" hint="Clients can freeze and move the namespace's time" value=${virtualTime} set=${setVirtual} />
      <${Check} label="Faults" hint="Fault rules can make operations of clients fail" value=${allowFaults} set=${setFaults} /></div></details><//>`;
}

const change = (of, again) => open(`Change ${of.name}`, (close) => html`<${Changing} ...${{ of, again, close }} />`);

function Changing({ of, again, close }) {
  const { quotas } = of;
  const [form, set] = useState({ hosts: given(of).join(", "), entities: quotas.maxEntities, connections: quotas.maxConnections, megabytes: quotas.maxSizeMegabytes });
  const submit = async () => {
    await ask(at(of.name), { method: "PUT", body: JSON.stringify(wishOf(form)) });
    await again();
    close();
  };
  return html`<${Form} action="Save" submit=${submit} cancel=${() => close()}><${Fields} form=${form} set=${set} /><//>`;
}

async function reset(name) {
  const own = name === session.value.namespace ? "It is the one that you are signed in to. " : "";
  if (!(await confirm(`Reset ${name}?`, `${own}Every message in it is deleted: active, scheduled, deferred, locked and dead-lettered ones, with sessions and their state. Queues, topics, subscriptions, rules, policies and connections stay. This cannot be undone.`, "Delete all messages"))) return;
  await ask(`${at(name)}/reset`, { method: "POST" });
  changed();
  return `${name} is empty.`;
}

async function remove(name, again) {
  if (!(await open(`Delete ${name}?`, (close) => html`<${Deleting} name=${name} close=${close} />`))) return;
  go("#/namespaces");
  await again();
  return `${name} is deleted.`;
}

function Deleting({ name, close }) {
  const [typed, set] = useState("");
  const submit = async () => {
    if (typed.trim() !== name) throw new Error(`Type ${name}.`);
    await ask(at(name), { method: "DELETE" });
    close(true);
  };
  return html`<${Form} action="Delete namespace" danger submit=${submit} cancel=${() => close()}>
    <p class="prose">The namespace's queues, topics and messages are deleted too, its keys become invalid, and its clients are disconnected. This cannot be undone.</p>
    <${Input} label="Name of the namespace, to confirm" required autofocus value=${typed} set=${set} placeholder=${name} /><//>`;
}
