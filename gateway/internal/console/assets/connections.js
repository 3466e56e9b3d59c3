import { html, Empty, Loading, textOf, useState } from "./ui.js";
import { bus, mayList, session } from "./session.js";
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
    <p class="muted">Of this gateway; other gateways of the same namespace have connections of their own.</p>
    <section class="card">${
      !allowed ? html`<${Empty} title="Not with this key">Who is connected needs Manage for the namespace.<//>`
      : error ? html`<${Empty} title="That did not work">${textOf(error)}<//>`
      : !list ? html`<${Loading} />`
      : html`<div class="scroll"><table>
        <thead><tr><th>Protocol</th><th>From</th><th>Client</th><th>Policies</th><th>Since</th><th>Links</th></tr></thead>
        <tbody>${list.map((c) => html`<tr key=${c.id}>
          <td>${c.protocol}${c.id === session.value.connection && html` <span class="badge accent">this page</span>`}</td>
          <td class="mono">${c.peer}</td><td><div class="clip" title=${c.product}>${c.product || "–"}</div></td><td>${c.policies.join(", ") || "–"}</td><td>${time(c.since)}</td>
          <td class="links">${c.links.length === 0 ? html`<span class="muted">none</span>` : c.links.map((l) => html`<div><span class="badge">${l.direction}</span> <a href=${addressOf(l.entity.replace(/\/\$.*/, ""))}>${l.entity}</a>
            ${l.mode && html` <small>${l.mode}</small>`}${l.session !== undefined && html` <small>session ${l.session}</small>`}</div>`)}</td></tr>`)}
        </tbody></table></div>`}
    </section></div>`;
}
