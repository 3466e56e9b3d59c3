// Looking at messages: those of an entity, its dead letters, those of its transfers, or what is scheduled.
import { html, Action, complain, confirm, Empty, Icon, Loading, textOf, useEffect, useRef, useState } from "./ui.js";
import { bus, changed, changes, may } from "./session.js";
import { now } from "./gateway.js";
import { amount, time } from "./format.js";
import { toText } from "./values.js";
import { Detail } from "./detail.js";
import { Held, receive, receiveDeferred } from "./held.js";
import { editAndSend } from "./compose.js";
import { discard, resubmit } from "./resubmit.js";

const page = 50; // messages shown at once

const teach = {
  messages: ["No messages", "Press “Send” to send one, or wait for a program to do it. Browsing neither locks nor removes messages."],
  transfer: ["No transfer dead letters", "Messages come here when they cannot be forwarded: the destination is gone, full or disabled, or refuses them. Each has a reason."],
  dead: ["No dead letters", "Messages come here when they expire, when too many deliveries have failed, or when a receiver dead-letters them. Each has a reason."],
  scheduled: ["Nothing is scheduled", "Messages that are sent with a time in the future wait here until then. They can be cancelled."],
};

export function Browser({ entity, settings, target, view }) {
  const [found, setFound] = useState({ messages: [], loading: true });
  const [from, setFrom] = useState("");
  const [state, setState] = useState(view === "scheduled" ? "Scheduled" : "");
  const [chosen, choose] = useState();
  const [checked, setChecked] = useState(new Set());
  const round = useRef(0), table = useRef();

  const look = async (start, before) => {
    const mine = ++round.current;
    setFound({ messages: before, loading: true });
    try {
      const messages = [...before];
      let next = start, more = true;
      for (let left = page; more && left > 0; left = before.length + page - messages.length) { // an answer has about 1 MiB at most
        const some = await bus().peek(entity, { from: next, max: left, bodies: "binary", ...(state && { inState: state }) });
        messages.push(...some);
        more = some.length > 0;
        next = (some.at(-1)?.sequenceNumber ?? next) + 1;
      }
      if (mine !== round.current) return;
      setFound({ messages, next, more });
      setChecked((old) => new Set([...old].filter((n) => messages.some((m) => m.sequenceNumber === n))));
    } catch (error) {
      if (mine === round.current) setFound({ messages: before, error });
    }
  };
  const again = () => look(Number(from) || 1, []);
  useEffect(() => { again(); }, [entity, state, changes.value]);

  const { messages, loading, error, more, next } = found;
  const current = messages.find((m) => m.sequenceNumber === chosen);
  const picked = messages.filter((m) => checked.has(m.sequenceNumber));
  const check = (n, on) => setChecked((old) => { const s = new Set(old); if (on) s.add(n); else s.delete(n); return s; });
  const dead = view === "dead" || view === "transfer", scheduled = view === "scheduled", many = dead || scheduled;
  const step = (e) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[e.key], rows = [...table.current.querySelectorAll("button.link")];
    const next = way && rows[rows.indexOf(e.target) + way];
    if (!next) return;
    e.preventDefault();
    next.focus();
    next.click();
  };
  return html`
    ${!scheduled && html`<${Held} entity=${entity} />`}
    <div class=${"browser" + (current ? "" : " alone")}>
      <section class="card">
        <header>
          ${!scheduled && html`<${Action} class="primary" icon="receive" run=${() => receive(entity, dead ? false : settings?.RequiresSession)}>Receive<//>`}
          ${dead && html`
            <${Action} disabled=${picked.length === 0 || !may("Send")} run=${() => resubmit(entity, target, picked)}>Resubmit ${picked.length || ""}<//>
            <${Action} class="danger" disabled=${picked.length === 0} run=${() => discard(entity, picked)}>Delete ${picked.length || ""}<//>
            <${Action} class="danger" disabled=${messages.length === 0} run=${() => purge(entity)}>Delete all<//>`}
          ${scheduled && html`<${Action} class="danger" disabled=${picked.length === 0} run=${() => cancel(entity, picked)}>Cancel ${picked.length || ""}<//>`}
          ${view === "messages" && html`<label class="spread muted">State <select style=${{ width: "auto" }} value=${state} onChange=${(e) => setState(e.target.value)}>
            <option value="">any</option><option>Active</option><option>Deferred</option><option>Scheduled</option></select></label>`}
          <form class="spread push" onSubmit=${(e) => { e.preventDefault(); again(); }}>
            <input style=${{ width: "7.6rem" }} inputmode="numeric" pattern="[0-9]*" aria-label="From sequence number" placeholder="from number" value=${from} onInput=${(e) => setFrom(e.target.value)} />
            <button class="button" aria-label="Look again" title="Look again"><${Icon} name="refresh" /></button>
          </form>
        </header>
        ${error && html`<${Empty} title=${error.code === "unauthorized" ? "Not with this key" : "That did not work"}>${textOf(error)}<//>`}
        ${messages.length > 0 ? html`<div class="scroll"><table ref=${table} onKeyDown=${step}>
          <thead><tr>
            ${many && html`<th class="tight"><input type="checkbox" aria-label="Choose all" checked=${picked.length === messages.length} onChange=${(e) => setChecked(new Set(e.target.checked ? messages.map((m) => m.sequenceNumber) : []))} /></th>`}
            <th class="tight">Number</th><th>Message id</th>
            ${dead ? html`<th>Reason</th>` : html`<th>Label</th>`}
            <th class="tight">${scheduled ? "Becomes active" : "Enqueued"}</th>${!scheduled && html`<th class="num tight">Deliveries</th>`}${view === "messages" && html`<th class="tight">State</th>`}
          </tr></thead>
          <tbody>${messages.map((m) => { const n = m.sequenceNumber, b = m.broker; return html`<tr key=${n} class=${"pick" + (n === chosen ? " chosen" : "")} onClick=${() => choose(n === chosen ? undefined : n)}>
            ${many && html`<td class="tight" onClick=${(e) => e.stopPropagation()}><input type="checkbox" aria-label=${`Choose ${n}`} checked=${checked.has(n)} onChange=${(e) => check(n, e.target.checked)} /></td>`}
            <td class="tight"><button class="button link" aria-expanded=${n === chosen} aria-label=${`Message ${n}`} onClick=${(e) => { e.stopPropagation(); choose(n === chosen ? undefined : n); }}>${n}</button></td>
            <td><div class="clip">${b.MessageId === undefined ? "–" : toText(b.MessageId)}</div></td>
            <td><div class="clip">${dead ? m.properties.DeadLetterReason ?? "–" : b.Label ?? "–"}</div></td>
            <td class="tight">${time(scheduled ? b.ScheduledEnqueueTimeUtc : b.EnqueuedTimeUtc)}</td>
            ${!scheduled && html`<td class="num">${b.DeliveryCount ?? 0}</td>`}
            ${view === "messages" && html`<td class="tight"><span class=${"badge" + (b.State === "Active" ? "" : " accent")}>${b.State}</span></td>`}
          </tr>`; })}</tbody></table></div>`
        : !loading && !error && html`<${Empty} title=${teach[view][0]}>${teach[view][1]}<//>`}
        ${loading && messages.length === 0 && html`<${Loading} />`}
        ${(more || messages.length > 0) && html`<div class="in spread"><span class="muted">${amount(messages.length)} shown</span>${more && html`<${Action} class="small" run=${() => look(next, messages)}>Show more<//>`}</div>`}
      </section>
      ${current && html`<${Detail} key=${current.sequenceNumber} message=${current} entity=${entity} close=${() => choose()}><${Actions} ...${{ entity, target, view, message: current }} /><//>`}
    </div>`;
}

/** What can be done with the message that is looked at. */
function Actions({ entity, target, view, message }) {
  const number = message.sequenceNumber;
  if (view === "dead" || view === "transfer") {
    return html`
      <${Action} class="primary" disabled=${!may("Send")} run=${() => resubmit(entity, target, [message])}>Resubmit<//>
      <${Action} icon="edit" disabled=${!may("Send")} run=${() => resubmit(entity, target, [message], true)}>Edit and resubmit<//>
      <${Action} class="danger" icon="trash" run=${() => discard(entity, [message])}>Delete<//>`;
  }
  return html`
    ${message.broker.State === "Scheduled" && html`<${Action} class="danger" run=${() => cancel(entity, [message])}>Cancel<//>`}
    ${message.broker.State === "Deferred" && html`<${Action} class="primary" icon="receive" run=${() => receiveDeferred(entity, number)}>Receive<//>`}
    ${may("Send") && !/\/subscriptions\//i.test(entity) && html`<${Action} icon="send" run=${() => editAndSend(entity, message)}>Send a copy<//>`}`;
}

async function cancel(entity, messages) {
  const what = messages.length === 1 ? `Message ${messages[0].sequenceNumber} is` : `${messages.length} messages are`;
  if (!(await confirm("Cancel what is scheduled?", `${what} deleted and will never be delivered.`, "Cancel delivery"))) return;
  await bus().cancel(entity, messages.map((m) => m.sequenceNumber));
  changed();
  return messages.length === 1 ? "It is cancelled." : `${messages.length} are cancelled.`;
}

async function purge(entity) {
  if (!(await confirm("Delete all dead letters?", "All dead letters that are here now are deleted, also those that are not shown. This cannot be undone.", "Delete all"))) return;
  const before = new Date(now());
  let count = 0;
  try {
    for (let some; some !== 0; count += some) some = await bus().purge(entity, { before, max: 1000 });
  } catch (e) {
    complain(e);
  }
  changed();
  return `${amount(count)} deleted.`;
}
