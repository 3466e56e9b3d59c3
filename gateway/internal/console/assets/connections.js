import { html, Action, confirm, Empty, Loading, textOf, useState } from "./ui.js";
import { atHome, bus, mayList, session } from "./session.js";
import { addressOf } from "./route.js";
import { time } from "./format.js";
import { usePoll } from "./poll.js";

export function Connections() {
  const [{ list, error }, set] = useState({});
  const allowed = mayList();
  usePoll(async () => {
    if (!allowed) return;
    try {
      set({ list: await bus().connections() });
    } catch (e) {
      set({ error: e });
      throw e;
    }
  }, 3, []);
  return html`<div class="page"><h1>Connected clients</h1>
    <p class="muted">Clients of this gateway${atHome() && ", in all of its namespaces"}; clients of other gateways are not in this list.</p>
    <section class="card">${
      !allowed ? html`<${Empty} title="Not with this key">The list of connections requires Manage on the namespace.<//>`
      : error ? html`<${Empty} title="That did not work">${textOf(error)}<//>`
      : !list ? html`<${Loading} />`
      : html`<div class="scroll"><table>
        <thead><tr>${atHome() && html`<th>Namespace</th>`}<th>Protocol</th><th>Client</th><th>Policies</th><th>Since</th><th>Links</th><th class="tight stays"></th></tr></thead>
        <tbody>${list.map((c) => html`<tr key=${c.id}>
          ${atHome() && html`<td>${c.namespace || "–"}</td>`}<td>${c.protocol}${c.id === session.value.connection && html` <span class="badge accent">this page</span>`}</td>
          <td><div class="clip" title=${c.product}>${c.product || "–"}</div><small class="mono">${c.peer}</small></td><td>${c.policies.join(", ") || "–"}</td><td>${time(c.since)}</td>
          <td class="links">${c.links.length === 0 ? html`<span class="muted">none</span>` : c.links.map((l) => html`<div><span class="badge">${l.direction}</span> <${Name} of=${c} entity=${l.entity} />
            ${l.mode && html` <small>${l.mode}</small>`}${l.session !== undefined && html` <small>session ${l.session || "with the empty id"}</small>`}</div>`)}</td>
          <td class="tight stays">${c.id !== session.value.connection && html`<${Action} class="danger small" label=${`Close the connection from ${c.peer}`} run=${() => close(c)}>Close<//>`}</td></tr>`)}
        </tbody></table></div>`}
    </section></div>`;
}

async function close({ id, peer, product }) {
  if (!(await confirm("Close this connection?", `${product || "A client"} at ${peer} finishes the work in flight, and then gets the error that an operator has closed its connection. SDKs connect again automatically, and no message is lost. The gateway releases the sessions that the client holds.`, "Close"))) return;
  await bus().closeConnection(id);
  return `The connection from ${peer} is closed.`;
}

/** An entity, with a link to where it is seen: entities of other namespaces are not. */
const Name = ({ of, entity }) => (of.namespace === session.value.namespace ? html`<a href=${addressOf(entity.replace(/\/\$.*/, ""))}>${entity}</a>` : entity);
