// The rules by which operations of clients go wrong, in a namespace that allows faults.
import { html, Action, Check, confirm, Empty, Field, Form, Icon, Input, Loading, open, Select, textOf, useState } from "./ui.js";
import { ask } from "./adminapi.js";
import { amount, parseDuration, until } from "./format.js";
import { usePoll } from "./poll.js";

// As core/faults has them: a test compares.
export const operations = [
  "send", "deliver", "complete", "abandon", "defer", "dead-letter", "settle", "renew", "open-sender", "open-receiver", "accept-session", "renew-session", "session-state",
  "peek", "receive-deferred", "cancel", "commit", "manage", "authorize",
];
export const effects = ["fail", "delay", "throttle", "drop-connection", "detach", "lose-lock", "reorder", "cut-transfer", "deliver-twice", "expire-token"];
const codes = ["server-busy", "timeout", "internal-error", "entity-disabled", "quota-exceeded", "unauthorized", "not-found", "lock-lost", "session-lock-lost"];

/** `path` is that of the rules below /$crosstown. */
export function Faults({ path }) {
  const [rules, setRules] = useState(), [problem, setProblem] = useState("");
  const take = ({ faults }) => setRules(faults);
  const look = async () => {
    try {
      take(await ask(path));
      setProblem("");
    } catch (e) {
      setProblem(textOf(e));
      throw e;
    }
  };
  usePoll(look, 2, [path]);
  const remove = async (name) => take(await ask(`${path}/${encodeURIComponent(name)}`, { method: "DELETE" }));
  const clear = async () => {
    if (!(await confirm("Remove all fault rules?", "Operations of clients succeed again.", "Remove all"))) return;
    take(await ask(path, { method: "DELETE" }));
  };
  const add = async () => {
    if (await open("New fault rule", (close) => html`<${Adding} path=${path} close=${close} />`, true)) await look();
  };
  return html`<section class="card" aria-labelledby="faults"><header><h2 id="faults">Faults</h2><span class="muted">the counts are those of this gateway; the first matching rule applies</span>
      <div class="push actions"><${Action} class="primary" icon="plus" run=${add}>Add rule<//><${Action} class="danger" disabled=${!rules?.length} run=${clear}>Remove all<//></div></header>
    ${problem && html`<p class="in problem" role="alert">${problem}</p>`}
    ${!rules ? !problem && html`<${Loading} />`
    : rules.length === 0 ? html`<${Empty} title="No faults">Add a rule to make operations of clients fail, wait, or lose their connection, and test how an application reacts.<//>`
    : html`<div class="scroll"><table aria-label="Fault rules"><thead><tr><th>Name</th><th>Operation</th><th>Where</th><th>Effect</th><th class="num" title="Operations to which the rule applied its effect">Affected</th><th class="num" title="Matching operations, including those that passed">Matched</th><th class="tight">Ends in</th><th class="tight"></th></tr></thead>
      <tbody>${rules.map((r) => html`<tr key=${r.name}><td class="wrap">${r.name}</td><td>${r.operation}</td><td class="wrap">${where(r)}</td><td class="wrap">${what(r)}</td>
        <td class="num">${amount(r.met)} of ${amount(r.times)}</td><td class="num">${amount(r.matched)}</td><td class="tight">${until(r.ends)}</td>
        <td class="tight"><${Action} class="quiet" icon="trash" label=${`Remove rule ${r.name}`} run=${() => remove(r.name)} /></td></tr>`)}</tbody></table></div>`}
  </section>`;
}

const where = (r) => [r.entity || "any entity", r.client && `client ${r.client}`, ...Object.entries(r.properties ?? {}).map(([k, v]) => `${k} = ${v}`)].filter(Boolean).join(", ");

const what = (r) => [
  r.effect, ["fail", "detach"].includes(r.effect) && (r.condition || r.code.replaceAll("_", "-")), r.after && "after it took effect", r.rate > 0 && `above ${r.rate}/s`, r.delay && `delay ${r.delay}`,
  r.skip > 0 && `after ${amount(r.skip)} that pass`, r.probability > 0 && r.probability < 1 && `with probability ${r.probability}`,
].filter(Boolean).join(", ");

const blank = { operation: "send", entity: "", client: "", properties: "", effect: "fail", code: "", condition: "", after: false, skip: "", times: "1", probability: "", seed: "", rate: "", delay: "", life: "", name: "" };

/** The rule that a form describes. */
function ruleOf(form) {
  const rule = { operation: form.operation, effect: form.effect };
  for (const name of ["name", "entity", "client", "code", "condition"]) if (form[name].trim()) rule[name] = form[name].trim();
  for (const name of ["skip", "times", "probability", "seed", "rate"]) if (form[name] !== "") rule[name] = Number(form[name]);
  for (const name of ["delay", "life"]) if (form[name].trim()) rule[name] = parseDuration(form[name]);
  if (form.after) rule.after = true;
  for (const line of form.properties.split("\n").filter((l) => l.trim())) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`“${line}” is not a property: write it like color=red, one a line.`);
    (rule.properties ??= {})[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return rule;
}

function Adding({ path, close }) {
  const [form, set] = useState(blank);
  const put = (name) => (v) => set({ ...form, [name]: v });
  const input = (label, name, more) => html`<${Input} label=${label} value=${form[name]} set=${put(name)} ...${more} />`;
  const number = { type: "number", min: "0", step: "1" };
  return html`<${Form} action="Add rule" submit=${async () => close(await ask(path, { method: "POST", body: JSON.stringify(ruleOf(form)) }))} cancel=${() => close()}>
    <div class="fields"><${Select} label="Operation" value=${form.operation} set=${put("operation")} options=${operations} />
      ${input("Entity", "entity", { placeholder: "any", hint: "orders, orders/$DeadLetterQueue, or or*" })}
      <${Select} label="Effect" value=${form.effect} set=${put("effect")} options=${effects} />
      <${Field} label="Code" hint="Error for the client">${(a) => html`<input ...${a} list="fault-codes" placeholder="server-busy" value=${form.code} onInput=${(e) => put("code")(e.target.value)} />
        <datalist id="fault-codes">${codes.map((c) => html`<option value=${c} />`)}</datalist>`}<//>
      ${input("How many", "times", { ...number, min: "1" })}${input("Pass before", "skip", { ...number, placeholder: "0" })}
      ${input("Delay", "delay", { placeholder: "none", hint: "2 s" })}${input("Operations a second", "rate", { type: "number", min: "0", step: "any", hint: "for the effect throttle" })}</div>
    <${Check} label="Carry out the operation, and lose only its answer" value=${form.after} set=${put("after")} />
    <details><summary>More</summary><div class="form"><div class="fields">${input("Client", "client", { placeholder: "any", hint: "A part of the client's address, protocol or SDK, or the name of its policy" })}
      ${input("AMQP condition", "condition", { placeholder: "that of the code" })}${input("Probability", "probability", { type: "number", min: "0", max: "1", step: "any", placeholder: "1" })}
      ${input("Seed", "seed", number)}${input("Life", "life", { placeholder: "1h" })}${input("Name", "name", { placeholder: "fault-N" })}</div>
      <${Field} label="Properties of the message" hint="name=value, one a line">${(a) => html`<textarea ...${a} rows="2" value=${form.properties} onInput=${(e) => put("properties")(e.target.value)}></textarea>`}<//></div></details>
  <//>`;
}
