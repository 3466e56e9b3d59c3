// The access policies of a queue or topic: keys that open it alone.
import { html, Action, Check, confirm, Empty, Form, Input, open, useState } from "./ui.js";
import { bus, changed } from "./session.js";
import { base64 } from "./values.js";

export function Policies({ entry }) {
  const all = entry.data.value.settings.AuthorizationRules ?? [];
  const remove = async (policy) => {
    if (!(await confirm(`Delete policy ${policy.KeyName}?`, "From then on, the gateway refuses clients with a key of this policy.", "Delete policy"))) return;
    await save(entry, all.filter((p) => p !== policy));
  };
  return html`<section class="card"><header><h2>Access policies</h2><span class="muted">keys for only this entity</span>
      <div class="push"><${Action} icon="plus" run=${() => open("New access policy", (close) => html`<${Adding} ...${{ entry, all, close }} />`)}>Add policy<//></div></header>
    ${all.length === 0 ? html`<${Empty} title="No policies of its own">The namespace's policies are valid here. Add a policy for a program that may use only this entity, for example only send.<//>`
    : html`<div class="scroll"><table><thead><tr><th>Name</th><th>Rights</th><th class="tight"></th></tr></thead><tbody>${all.map((p) => html`<tr key=${p.KeyName}>
      <td class="wrap">${p.KeyName}</td><td>${p.Rights.join(", ")}</td>
      <td class="tight"><div class="actions"><${Action} class="small" run=${() => copy(entry.name, p)}>Copy connection string<//>
        <${Action} class="small danger" icon="trash" label=${`Delete policy ${p.KeyName}`} run=${() => remove(p)} /></div></td></tr>`)}</tbody></table></div>`}
  </section>`;
}

async function save(entry, policies) {
  await bus().update(entry.name, { AuthorizationRules: policies });
  changed();
}

async function copy(entity, { KeyName, PrimaryKey }) {
  const plain = location.protocol === "http:" ? ";UseDevelopmentEmulator=true" : "";
  await navigator.clipboard.writeText(`Endpoint=sb://${location.host};SharedAccessKeyName=${KeyName};SharedAccessKey=${PrimaryKey};EntityPath=${entity}${plain}`);
  return "The connection string is in the clipboard.";
}

const newKey = () => base64(crypto.getRandomValues(new Uint8Array(32)));

function Adding({ entry, all, close }) {
  const [name, setName] = useState(""), [rights, setRights] = useState(["Send"]);
  const set = (right) => (on) => setRights(right === "Manage" && on ? ["Send", "Listen", "Manage"] : on ? [...rights, right] : rights.filter((r) => r !== right && r !== "Manage"));
  const submit = async () => {
    if (rights.length === 0) throw new Error("Choose a right.");
    if (all.some((p) => p.KeyName === name.trim())) throw new Error(`There is a policy ${name.trim()} already.`);
    await save(entry, [...all, { KeyName: name.trim(), PrimaryKey: newKey(), SecondaryKey: newKey(), Rights: rights }]);
    close("The policy is added.");
  };
  return html`<${Form} action="Add policy" submit=${submit} cancel=${() => close()}>
    <${Input} label="Name" required autofocus value=${name} set=${setName} hint="Letters, digits and hyphens; the console generates the keys" />
    ${["Send", "Listen", "Manage"].map((r) => html`<${Check} label=${r} value=${rights.includes(r)} set=${set(r)} />`)}<//>`;
}
