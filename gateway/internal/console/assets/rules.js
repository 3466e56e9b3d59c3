// The rules of a subscription.
import { html, Action, confirm, Empty, Form, Input, Loading, open, textOf, useLoaded, useState } from "./ui.js";
import { bus, changed, changes } from "./session.js";
import { draftOf, FilterFields, filterText, ruleOf } from "./filter.js";
import { Tester } from "./tester.js";

export function Rules({ entity, topic }) {
  const { value, error, loading } = useLoaded(() => bus().rules(entity), [entity, changes.value]);
  return html`
    <section class="card"><header><h2>Rules</h2><span class="muted">the subscription gets a copy of each message that a rule matches</span>
      <div class="push"><${Action} icon="plus" run=${() => edit(entity)}>Add<//></div></header>
      ${error ? html`<${Empty} title="That did not work">${textOf(error)}<//>` : loading && !value ? html`<${Loading} />`
      : value.length === 0 ? html`<${Empty} title="No rules">A subscription without rules gets no messages. Add a rule: the filter “true” matches all messages.<//>`
      : html`<div class="scroll"><table><thead><tr><th>Name</th><th>Filter</th><th>Action</th><th class="tight"></th></tr></thead>
        <tbody>${value.map((r) => html`<tr key=${r.name}><td class="wrap"><strong>${r.name}</strong></td><td class="wrap"><code>${filterText(r.filter)}</code></td>
          <td class="wrap">${r.action ? html`<code>${r.action}</code>` : html`<span class="muted">none</span>`}</td>
          <td class="tight"><div class="actions"><${Action} class="small" icon="edit" label=${`Edit rule ${r.name}`} run=${() => edit(entity, r)} /><${Action} class="small danger" icon="trash" label=${`Delete rule ${r.name}`} run=${() => remove(entity, r.name)} /></div></td></tr>`)}</tbody></table></div>`}
    </section>
    <${Tester} topic=${topic} subscription=${entity} />`;
}

async function remove(entity, name) {
  if (!(await confirm(`Delete rule ${name}?`, "Messages that only this rule matches no longer arrive here.", "Delete rule"))) return;
  await bus().deleteRule(entity, name);
  changed();
}

const edit = (entity, rule) => open(rule ? `Rule ${rule.name}` : "New rule", (close) => html`<${Editing} ...${{ entity, rule, close }} />`, true);

function Editing({ entity, rule, close }) {
  const [form, set] = useState(draftOf(rule));
  const submit = async () => {
    await bus()[rule ? "updateRule" : "createRule"](entity, ruleOf(form));
    changed();
    close();
  };
  return html`<${Form} action=${rule ? "Save" : "Add rule"} submit=${submit} cancel=${() => close()}>
    ${!rule && html`<${Input} label="Name" required maxlength="50" autofocus value=${form.name} set=${(name) => set({ ...form, name })} />`}
    <${FilterFields} form=${form} set=${set} /><//>`;
}
