// The brokers elsewhere that messages go to and come from.
import { html, Empty, Icon, Loading, plainly, textOf, useState } from "./ui.js";
import { ask } from "./adminapi.js";
import { atHome, mayList, ofSession, session } from "./session.js";
import { addressOf } from "./route.js";
import { age, amount, time } from "./format.js";
import { usePoll } from "./poll.js";

/** What the gateway last said of its remotes; null until loadRemotes. */
export const [remotes, loadRemotes] = ofSession(() => ask("remotes"));

/** Whether there are remotes that the user may see. */
export const hasRemotes = () => mayList() && remotes.value?.length > 0;

export function Remotes() {
  const [problem, setProblem] = useState();
  const allowed = mayList();
  usePoll(async () => {
    if (!allowed) return;
    try {
      await loadRemotes();
      setProblem();
    } catch (e) {
      setProblem(e);
      throw e;
    }
  }, 2, []);
  const all = remotes.value;
  return html`<div class="page"><h1>Remotes</h1>
    <p class="muted">Other brokers to which ${atHome() ? "this gateway" : "this namespace"} forwards messages, and from which it pulls them. Connections and counts are those of this gateway, since its start.</p>
    ${!allowed ? html`<section class="card"><${Empty} title="Not with this key">Remotes require Manage on the whole namespace.<//></section>`
    : problem ? html`<section class="card"><${Empty} title="That did not work">${textOf(problem)}<//></section>`
    : !all ? html`<${Loading} />`
    : all.length === 0 ? html`<section class="card"><${Empty} title="There are no remotes">List other brokers as “remotes” in the gateway's configuration.<//></section>`
    : all.map((r) => html`<${Remote} key=${`${r.namespace}/${r.name}`} of=${r} />`)}
  </div>`;
}

function Remote({ of: { namespace, name, address, connected, since, error, errorAt, window, targets, sources, waiting } }) {
  const id = `remote-${namespace}-${name}`, home = namespace === session.value.namespace;
  return html`<section class="card" aria-labelledby=${id}>
    <header><${Icon} name="remote" /><h2 id=${id}>${name}</h2>${!home && html`<span class="badge" title="Namespace">${namespace}</span>`}<span class=${`badge ${connected ? "good" : "bad"}`}>${connected ? "connected" : "away"}</span>
      <span class="muted">since ${time(since)}</span><span class="muted push">${address}</span></header>
    ${error && html`<div class="in"><p class=${`note${connected ? "" : " bad"}`}>${connected && "Last problem"}${errorAt && `${connected ? ", at " : "At "}${time(errorAt)}`}: ${plainly(error)}</p></div>`}
    ${waiting.length > 0 && html`<${Waiting} of=${name} home=${home} list=${waiting} />`}
    ${targets.length > 0 && html`<${Targets} of=${name} list=${targets} window=${window} />`}
    ${sources.length > 0 && html`<${Sources} of=${name} home=${home} list=${sources} />`}
    ${targets.length + sources.length + waiting.length === 0 && html`<p class="in muted">No messages are forwarded to this remote or pulled from it.</p>`}
  </section>`;
}

/** An entity of the remote's namespace, with a link unless that is another. */
const Local = ({ name, part, home, children }) => (home ? html`<a href=${addressOf(name, part)}>${name}${children}</a>` : html`${name}${children}`);

/** What lies here and is to go there. */
const Waiting = ({ of, home, list }) => html`<h3>Waiting here</h3><div class="scroll"><table aria-label=${`Waiting for ${of}`}>
  <thead><tr><th>In</th><th>For</th><th class="num">Waiting</th><th class="num">Oldest</th></tr></thead>
  <tbody>${list.map((w) => html`<tr key=${`${w.entity} ${w.deadLetters}`}><td class="wrap"><${Local} name=${w.entity} part=${w.deadLetters ? "dead" : "messages"} home=${home}>${w.deadLetters && ", dead letters"}<//></td>
    <td class="wrap">${w.to}</td><td class="num">${amount(w.messages)}</td><td class="num">${w.oldest ? age(Math.max(Date.now() - new Date(w.oldest), 0) / 1000) : "–"}</td></tr>`)}</tbody>
</table></div>`;

const Targets = ({ of, list, window }) => html`<h3>Sent to the remote</h3><div class="scroll"><table aria-label=${`Targets at ${of}`}>
  <thead><tr><th>To</th><th class="num">Sent</th><th class="num">Dead-lettered</th><th class="num">Delayed</th><th class="num">Under way</th><th class="num">Round trip</th></tr></thead>
  <tbody>${list.map((t) => html`<tr key=${t.entity}><td class="wrap">${t.entity}</td><td class="num">${amount(t.sent)}</td>
    <${Bad} count=${t.parked} /><td class="num">${amount(t.delayed)}</td><td class="num" title=${`of ${amount(window)} at most`}>${amount(t.underWay)}</td><td class="num">${t.roundTrip ? `${(t.roundTrip / 1e6).toFixed(1)} ms` : "–"}</td></tr>`)}</tbody>
</table></div>`;

const Sources = ({ of, home, list }) => html`<h3>Pulled from the remote</h3><div class="scroll"><table aria-label=${`Sources at ${of}`}>
  <thead><tr><th>From</th><th>Into</th><th class="tight"></th><th class="num">Received</th><th class="num">Repeated</th><th class="num">Dead-lettered there</th><th class="num" title="Age of the last message when it arrived">Behind</th></tr></thead>
  <tbody>${list.map((s) => html`<tr key=${s.from + s.into}><td class="wrap">${s.from}${s.error && html`<br /><small class="problem">${plainly(s.error)}</small>`}</td>
    <td class="wrap"><${Local} name=${s.into} home=${home} /></td>
    <td class="tight"><span class=${`badge ${s.attached ? "good" : "bad"}`}>${s.attached ? "attached" : "away"}</span></td>
    <td class="num">${amount(s.received)}</td><td class="num">${amount(s.repeated)}</td><${Bad} count=${s.parked} /><td class="num">${s.received > 0 ? age(s.behind / 1e9) : "–"}</td></tr>`)}</tbody>
</table></div>`;

const Bad = ({ count }) => html`<td class=${`num${count > 0 ? " problem" : ""}`}>${amount(count)}</td>`;
