// The addresses that take webhooks, and the entities whose messages are sent as webhooks.
import { html, Empty, Loading, textOf, useState } from "./ui.js";
import { ask } from "./adminapi.js";
import { mayList, ofSession, session } from "./session.js";
import { addressOf } from "./route.js";
import { amount, time } from "./format.js";
import { usePoll } from "./poll.js";

/** What the gateway last said: {hooks, pushes}; null until loadWebhooks. */
export const [webhooks, loadWebhooks] = ofSession(async () => {
  const [hooks, pushes] = await Promise.all([ask("hooks"), ask("pushes")]);
  return { hooks, pushes };
});

/** Whether there are any that the user may see. */
export const hasWebhooks = () => mayList() && webhooks.value?.hooks.length + webhooks.value?.pushes.length > 0;

export function Webhooks() {
  const [problem, setProblem] = useState(), allowed = mayList();
  usePoll(async () => {
    if (!allowed) return;
    try {
      await loadWebhooks();
      setProblem();
    } catch (e) {
      setProblem(e);
      throw e;
    }
  }, 2, []);
  const { hooks, pushes } = webhooks.value ?? {};
  return html`<div class="page"><h1>Webhooks</h1>
    <p class="muted">The gateway's configuration lists webhooks as “hooks” and “pushes”. Counts are those of this gateway, since its start.</p>
    ${!allowed ? html`<section class="card"><${Empty} title="Not with this key">Webhooks require Manage on the whole namespace.<//></section>`
    : problem ? html`<section class="card"><${Empty} title="That did not work">${textOf(problem)}<//></section>`
    : !hooks ? html`<${Loading} />`
    : hooks.length + pushes.length === 0 ? html`<section class="card"><${Empty} title="There are no webhooks">A hook stores the requests of a service as messages; a push sends the messages of an entity to a service.<//></section>`
    : html`${hooks.length > 0 && html`<${Hooks} list=${hooks} />`}${pushes.length > 0 && html`<${Pushes} list=${pushes} />`}`}
  </div>`;
}

/** An entity, with a link unless it is in another namespace. */
const Entity = ({ of, name, tab }) => (of.namespace === session.value.namespace ? html`<a href=${addressOf(name, tab)}>${name}</a>` : html`${name} <span class="badge" title="Namespace">${of.namespace}</span>`);

const proofs = { url: "a secret in the address", github: "signature of GitHub", stripe: "signature of Stripe", standard: "signature of Standard Webhooks" };

const Hooks = ({ list }) => html`<section class="card" aria-labelledby="hooks"><header><h2 id="hooks">In</h2><span class="muted">services send requests to these addresses</span></header>
  <div class="scroll"><table aria-label="Hooks"><thead><tr><th>Name</th><th>Address</th><th>Into</th><th>Requests verified by</th><th>Headers kept</th></tr></thead>
    <tbody>${list.map((h) => html`<tr key=${h.name}><td class="wrap">${h.name}</td><td class="wrap mono">${location.origin + h.path}</td><td class="wrap"><${Entity} of=${h} name=${h.entity} /></td>
      <td>${proofs[h.verify] ?? h.verify}</td><td class="wrap">${h.headers?.join(", ") || "–"}</td></tr>`)}</tbody></table></div></section>`;

const Pushes = ({ list }) => html`<section class="card" aria-labelledby="pushes"><header><h2 id="pushes">Out</h2><span class="muted">the gateway sends messages to these addresses</span></header>
  <div class="scroll"><table aria-label="Pushes"><thead><tr><th>Name</th><th>From</th><th>To</th><th class="num">Delivered</th><th class="num">Under way</th><th class="num" title="Attempts that are repeated">Failed</th><th class="num">Dead-lettered</th><th>Last problem</th></tr></thead>
    <tbody>${list.map((p) => html`<tr key=${`${p.namespace} ${p.name}`}><td class="wrap">${p.name}</td><td class="wrap"><${Entity} of=${p} name=${p.from} tab=${p.deadLettered > 0 ? "dead" : ""} /></td><td class="wrap mono">${p.url}</td>
      <td class="num">${amount(p.delivered)}</td><td class="num">${amount(p.underWay)}</td><td class="num">${amount(p.failed)}</td><td class=${`num${p.deadLettered > 0 ? " problem" : ""}`}>${amount(p.deadLettered)}</td>
      <td class="wrap">${p.lastError ? html`${time(p.lastErrorAt)}: ${p.lastError}` : "–"}</td></tr>`)}</tbody></table></div></section>`;
