// The policies of a namespace: what clients connect with.
import { html, Action, confirm, Copy, Empty, Field, Loading, open, textOf, useLoaded } from "./ui.js";
import { ask } from "./adminapi.js";

/** The policies of the namespace that the gateway tells of at a path. */
export function Access({ path, name }) {
  const { value, error, again } = useLoaded(() => ask(path), [path]);
  if (!value) return error ? html`<${Empty} title="That did not work">${textOf(error)}<//>` : html`<${Loading} />`;
  const rotate = async ({ name: policy }) => {
    if (!(await confirm(`Rotate the keys of ${policy}?`, "The policy gets a new primary key. The present primary key becomes the secondary key and stays valid; the present secondary key becomes invalid.", "Rotate"))) return;
    const { policies } = await ask(`${path}/policies/${encodeURIComponent(policy)}/rotate`, { method: "POST" });
    again();
    showAccess(`New key of ${policy} in ${name}`, policies.filter((p) => p.name === policy));
  };
  return html`<div class="scroll"><table aria-label=${`Policies of ${name}`}><thead><tr><th>Policy</th><th>Rights</th><th class="tight"></th></tr></thead>
    <tbody>${value.policies.map((p) => html`<tr key=${p.name}><td class="wrap">${p.name}</td><td>${p.rights.replaceAll(",", ", ")}</td>
      <td class="tight"><div class="actions"><${Action} class="small" run=${() => showAccess(`${p.name} in ${name}`, [p])}>Connection strings<//>
        <${Action} class="small" icon="refresh" label=${`Rotate the keys of ${p.name}`} run=${() => rotate(p)}>Rotate<//></div></td></tr>`)}</tbody></table></div>`;
}

/** Shows what clients connect with by some policies. */
export const showAccess = (title, policies) => open(title, () => html`<div class="form">
  ${policies.map((p) => html`<section class="form" aria-label=${p.name}>
    ${policies.length > 1 && html`<h3>${p.name}</h3>`}
    ${p.connectionString && html`<${Secret} label="Connection string" hint="Valid with any host of the gateway: the policy selects the namespace" value=${p.connectionString} />`}
    ${p.hostConnectionString && html`<${Secret} label="Connection string by host" hint="Valid if the host name resolves to the gateway" value=${p.hostConnectionString} />`}</section>`)}
  <p class="muted">Any client with one of these connection strings may use the namespace.</p></div>`, true);

const Secret = ({ label, hint, value }) => html`<${Field} label=${label} hint=${hint}>
  ${(a) => html`<div class="secret"><input ...${a} class="mono" readonly value=${value} onFocus=${(e) => e.target.select()} />
    <${Copy} text=${value} what=${`the ${label.toLowerCase()}`} /></div>`}
<//>`;
