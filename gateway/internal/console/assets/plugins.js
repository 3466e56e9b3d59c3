// The programs that the gateway runs beside itself, and what they have done.
import { html, Action, Empty, Form, Icon, Input, Loading, open, textOf, toast, useState } from "./ui.js";
import { ask } from "./adminapi.js";
import { mayRun, ofSession } from "./session.js";
import { addressOf } from "./route.js";
import { amount, time } from "./format.js";
import { usePoll } from "./poll.js";

/** What the gateway last said of its plugins; null until loadPlugins. */
export const [plugins, loadPlugins] = ofSession(() => ask("plugins"));

/** Whether there are plugins that the user may see. */
export const hasPlugins = () => mayRun() && plugins.value?.length > 0;

export function Plugins() {
  const [stages, setStages] = useState([]), [problem, setProblem] = useState();
  const allowed = mayRun();
  usePoll(async () => {
    if (!allowed) return;
    try {
      const [counts] = await Promise.all([ask("pipelines"), loadPlugins()]);
      setStages(counts);
      setProblem();
    } catch (e) {
      setProblem(e);
      throw e;
    }
  }, 2, []);
  const all = plugins.value;
  return html`<div class="page"><h1>Plugins</h1>
    <p class="muted">Programs that this gateway runs; other gateways run their own processes and have their own counts. Counts start at zero when the gateway starts.</p>
    ${!allowed ? html`<section class="card"><${Empty} title="Not with this key">Plugins require Manage on the gateway's own namespace.<//></section>`
    : problem ? html`<section class="card"><${Empty} title="That did not work">${textOf(problem)}<//></section>`
    : !all ? html`<${Loading} />`
    : all.length === 0 ? html`<section class="card"><${Empty} title="There are no plugins">List plugins as “plugins” in the gateway's configuration.<//></section>`
    : html`${all.map((p) => html`<${Plugin} key=${p.name} of=${p} stages=${stages.filter((s) => s.plugin === p.name)} />`)}
      <${Others} list=${stages.filter((s) => !all.some((p) => p.name === s.plugin))} />`}
  </div>`;
}

const kinds = { starting: "accent", ready: "good", restarting: "warn", off: "bad", stopped: "" };
const words = { ready: "running" };

function Plugin({ of, stages }) {
  const { name, condition, since, problem, calls, launches, plugin } = of;
  const id = `plugin-${name}`;
  return html`<section class="card" aria-labelledby=${id}>
    <header><${Icon} name="plugin" /><h2 id=${id}>${name}</h2><span class=${`badge ${kinds[condition]}`}>${words[condition] ?? condition}</span>
      <span class="muted">since ${time(since)}</span>
      <div class="push"><${Action} icon="refresh" label=${`Reload ${name}`} run=${() => reload(name)}>Reload<//></div></header>
    <dl class="glance">
      <${Fact} name="Program" value=${plugin ? `${plugin.name} ${plugin.version ?? ""}` : "–"} />
      <${Fact} name="Serves" value=${served(plugin)} />
      <${Fact} name="Contract" value=${plugin ? `version ${plugin.contract}` : "–"} />
      <${Fact} name="Process" value=${plugin?.pid ?? "–"} />
      <${Fact} name="Started" value=${`${amount(launches)} ${launches === 1 ? "time" : "times"}`} />
      <${Fact} name="Calls answered" value=${amount(calls.answered)} />
      <${Fact} name="Messages" value=${amount(calls.messages)} />
      <${Fact} name="Too late" value=${amount(calls.late)} bad=${calls.late > 0} />
      <${Fact} name="Refused or failed" value=${amount(calls.failed)} bad=${calls.failed > 0} />
      <${Fact} name="Waiting" value=${amount(calls.waiting)} />
    </dl>
    <div class="in path"><small>From <code>${of.path}</code></small>
      ${problem && html`<p class=${`note${condition === "ready" ? "" : " bad"}`}>${condition === "ready" ? "Last problem: " : ""}${problem}</p>`}</div>
    ${stages.length > 0 && html`<${Stages} of=${name} list=${stages} />`}
  </section>`;
}

const Fact = ({ name, value, bad }) => html`<div><dt>${name}</dt><dd class=${bad ? "problem" : undefined}>${value}</dd></div>`;

function served(plugin) {
  if (!plugin) return "–";
  const router = plugin.router && `routes${plugin.needsBody ? " by the body" : ""}`;
  return [router, ...(plugin.contentTypes ?? [])].filter(Boolean).join(", ") || "nothing";
}

const Stages = ({ of, list }) => html`<div class="scroll"><table aria-label=${`Pipelines of ${of}`}>
  <thead><tr><th>Messages to</th><th>Stage</th><th class="num">Judged</th><th class="num">Mismatched</th><th class="num">Routed</th><th class="num">Dropped</th><th class="num">Dead-lettered</th><th class="num">Refused</th>
    <th class="num">Parked</th><th class="num">Passed unjudged</th><th class="num">Refused unjudged</th></tr></thead>
  <tbody>${list.map((s) => html`<tr><td class="wrap"><a href=${addressOf(s.entity)}>${s.entity}</a></td><td>${s.stage}</td>
    ${["judged", "mismatched", "routed", "dropped", "deadLettered", "rejected", "parked", "passedUnjudged", "refused"].map((k) => html`<td class="num">${amount(s[k] ?? 0)}</td>`)}</tr>`)}</tbody>
</table></div>`;

/** The stages that are the gateway's own. */
const Others = ({ list }) => list.length > 0 && html`<section class="card" aria-labelledby="plugin-none">
  <header><h2 id="plugin-none">Without a plugin</h2><span class="muted">the gateway follows To and compares schemas itself</span></header><${Stages} of="the gateway" list=${list} /></section>`;

/** Has a new process take over; the dialog says why not, if it does not. */
const reload = (name) => open(`Reload ${name}?`, (close) => html`<${Reload} ...${{ name, close }} />`);

function Reload({ name, close }) {
  const [sum, set] = useState("");
  const submit = async () => {
    const { plugin } = await ask(`plugins/${encodeURIComponent(name)}`, { method: "POST", body: JSON.stringify({ sha256: sum.trim() }) });
    await loadPlugins().catch(() => {}); // the page asks again soon
    toast(`${name} is reloaded: ${plugin.name} ${plugin.version ?? ""}, process ${plugin.pid}.`);
    close();
  };
  return html`<${Form} action="Reload" submit=${submit} cancel=${() => close()}>
    <p class="prose">The gateway starts the plugin's program again. When the new process is ready, the gateway calls only the new process, and the old process finishes its calls. If the new process does not become ready, the old process continues.</p>
    <${Input} label="Checksum of a new program" hint="SHA-256 of the new program, if the configuration has a checksum; otherwise leave it empty." pattern="\\s*([0-9a-fA-F]{64})?\\s*" value=${sum} set=${set} /><//>`;
}
