// Looking at messages: those of an entity, its dead letters, those of its transfers, or what is scheduled.
import { html, Action, Empty, Icon, Input, Loading, plainly, signal, textOf, useEffect, useRef, useSight, useState } from "./ui.js";
import { changes, may } from "./session.js";
import { amount, time } from "./format.js";
import { instantOf, zone } from "./zone.js";
import { idOf, toText } from "./values.js";
import { bodyText, preview } from "./body.js";
import { Detail } from "./detail.js";
import { Held, receive, receiveDeferred } from "./held.js";
import { editAndSend } from "./compose.js";
import { discard, resubmit, resubmitAll } from "./resubmit.js";
import { backward, forward } from "./pages.js";
import { saveMessages } from "./files.js";
import { activate, cancel, deadLetter, purge, remove, reschedule, upload } from "./bulk.js";

const sizes = [50, 250, 1000, 5000]; // messages shown at once
const size = signal(sizes[0]), newest = signal(false); // the last message is above
const most = 10_000; // messages that a filter looks through before it asks

const teach = {
  messages: ["No messages", "Press “Send” to send a message, or wait until a program sends one. Browsing neither locks nor removes messages."],
  transfer: ["No transfer dead letters", "Messages arrive here when they cannot be forwarded: the destination does not exist, is full or disabled, or refuses them. Each message shows the reason."],
  dead: ["No dead letters", "Messages arrive here when they expire, when too many deliveries have failed, or when a receiver dead-letters them. Each message shows the reason."],
  scheduled: ["Nothing is scheduled", "Messages that are sent with a time in the future wait here until this time. You can cancel them."],
};

const noFilter = { id: "", property: "", body: "", since: "", until: "" };

/** What a filter takes: all parts that are given must be contained. */
function fitting(filter) {
  if (Object.values(filter).every((v) => !v.trim())) return Object.assign(() => true, { always: true });
  const low = (s) => s.toLowerCase(), id = low(filter.id.trim()), body = low(filter.body);
  const [, name, value] = /^\s*([^=]*?)\s*(?:=\s*(.*?)\s*)?$/.exec(low(filter.property));
  const [since, until] = [filter.since, filter.until].map((t) => (t ? instantOf(t) : undefined));
  return Object.assign((m) => {
    const { MessageId, CorrelationId, EnqueuedTimeUtc } = m.broker, at = new Date(EnqueuedTimeUtc);
    return (!id || [MessageId, CorrelationId].some((v) => v !== undefined && low(idOf(v)).includes(id)))
      && (!name || Object.entries({ ...m.broker, ...m.properties }).some(([k, v]) => low(k) === name && (value === undefined || low(toText(v)).includes(value))))
      && (!body || low(bodyText(m)).includes(body))
      && (!since || at >= since) && (!until || at <= until);
  }, { always: false });
}

export function Browser({ entity, settings, counts, target, view }) {
  const [found, setFound] = useState({ messages: [], loading: true });
  const [from, setFrom] = useState(""), [state, setState] = useState(view === "scheduled" ? "Scheduled" : "");
  const [filter, setFilter] = useState(noFilter), [chosen, choose] = useState();
  const [checked, setChecked] = useState(new Set());
  const round = useRef(0);
  const fits = fitting(filter);

  /** Shows what `load` finds; what was asked for later wins. */
  const look = async (load, before = []) => {
    const mine = ++round.current;
    setFound((f) => ({ ...f, messages: before, loading: true, seen: 0, error: undefined }));
    try {
      const next = await load((some, seen) => {
        if (mine === round.current) setFound((f) => ({ ...f, seen }));
        return mine === round.current;
      });
      if (mine !== round.current) return;
      setFound(next);
      setChecked((old) => new Set([...old].filter((n) => next.messages.some((m) => m.sequenceNumber === n))));
    } catch (error) {
      if (mine === round.current) setFound({ messages: before, error });
    }
  };
  const onward = (start, before = [], by = fits) => look(async (tell) => {
    const { found: some, next, seen } = await forward(entity, { state, from: start, size: size.value, fits: by, most, tell });
    return { messages: [...before, ...some], next, seen, earlier: before.length > 0 ? found.earlier : start > 1 && start };
  }, before);
  const back = (end, after = [], by = fits) => look(async (tell) => {
    const taken = [];
    let seen = 0, earlier = end;
    do {
      const some = await backward(entity, { state, end: earlier, size: by.always ? size.value : sizes[2] });
      seen += some.found.length;
      taken.unshift(...some.found.filter(by));
      earlier = some.earlier && some.found[0]?.sequenceNumber;
    } while (!by.always && earlier && taken.length < size.value && seen < most && tell(taken, seen));
    return { messages: [...taken, ...after], next: after.length > 0 ? found.next : undefined, seen, earlier };
  }, after);
  const again = (by = filter) => (newest.value ? back(from ? Number(from) + 1 : undefined, [], fitting(by)) : onward(Number(from) || 1, [], fitting(by)));
  useEffect(() => { again(); }, [entity, state, changes.value, size.value, newest.value]);

  const { messages, loading, error, next, earlier, seen } = found, shown = newest.value ? messages.toReversed() : messages;
  const earlierOnes = earlier && html`<${Action} class="small" disabled=${loading} run=${() => back(earlier, messages)}>${fits.always ? "Show earlier" : "Look earlier"}<//>`;
  const laterOnes = next && html`<${Action} class="small" disabled=${loading} run=${() => onward(next, messages)}>${newest.value ? "Show later" : fits.always ? "Show more" : "Look further"}<//>`;
  const [above, below] = newest.value ? [laterOnes, earlierOnes] : [earlierOnes, laterOnes];
  const current = messages.find((m) => m.sequenceNumber === chosen);
  const picked = messages.filter((m) => checked.has(m.sequenceNumber));
  const dead = view === "dead" || view === "transfer", scheduled = view === "scheduled";
  const sub = { dead: "deadLetter", transfer: "transferDeadLetter" }[view];
  return html`
    ${!scheduled && html`<${Held} entity=${entity} />`}
    <div class=${"browser" + (current ? "" : " alone")}>
      <section class="card">
        <header class="messages">
          ${!scheduled && html`<${Action} class="primary" icon="receive" run=${() => receive(entity, dead ? false : settings?.RequiresSession)}>Receive<//>`}
          ${dead && html`<${Action} disabled=${picked.length === 0 || !may("Send")} run=${() => resubmit(entity, target, picked)}>Resubmit ${picked.length || ""}<//>
            <${Action} disabled=${!may("Send") || !counts?.[sub]} run=${() => resubmitAll(entity, target, counts[sub])}>Resubmit all<//>`}
          ${scheduled ? html`<${Action} class="danger" disabled=${picked.length === 0} run=${() => cancel(entity, picked)}>Cancel ${picked.length || ""}<//>`
          : html`<${Action} class="danger" disabled=${picked.length === 0} run=${() => (dead ? discard(entity, picked) : remove(entity, settings, picked))}>Delete ${picked.length || "chosen"}<//>`}
          ${view === "messages" && html`<${Action} disabled=${!picked.some((m) => m.broker.State === "Active")} run=${() => deadLetter(entity, picked)}>Dead-letter ${picked.length || "chosen"}<//>`}
          ${!scheduled && (dead || !settings?.RequiresSession) && html`<${Action} class="danger" disabled=${messages.length === 0} run=${() => purge(entity, dead)}>${dead ? "Delete all" : "Purge"}<//>`}
          <${Action} disabled=${messages.length === 0} run=${async () => saveMessages(entity, picked.length ? picked : messages)}>Download ${picked.length || ""}<//>
          ${!dead && may("Send") && !/\/subscriptions\//i.test(entity) && html`<${Action} run=${() => upload(entity)}>Upload<//>`}
        </header>
        <header class="messages">
          <${Action} class="small" disabled=${loading} run=${() => onward(1)}>First<//><${Action} class="small" disabled=${loading} run=${() => back()}>Last<//>
          ${view === "messages" && html`<label class="spread muted">State <select value=${state} onChange=${(e) => setState(e.target.value)}>
            <option value="">any</option><option>Active</option><option>Deferred</option><option>Scheduled</option></select></label>`}
          <label class="spread muted" title="By sequence number; each partition numbers its messages separately">Order <select value=${String(newest.value)} onChange=${(e) => { newest.value = e.target.value === "true"; }}>
            <option value="false">oldest first</option><option value="true">newest first</option></select></label>
          <label class="spread muted">Show <select value=${size.value} onChange=${(e) => { size.value = Number(e.target.value); }}>${sizes.map((n) => html`<option value=${n}>${amount(n)}</option>`)}</select></label>
          <${FilterBy} value=${filter} set=${setFilter} apply=${again} active=${!fits.always} />
          <form class="spread push" onSubmit=${(e) => { e.preventDefault(); again(); }}>
            <input style=${{ width: "8.2rem" }} inputmode="numeric" pattern="[0-9]*" aria-label="From sequence number" placeholder="from number" value=${from} onInput=${(e) => setFrom(e.target.value)} />
            <button class="button" aria-label="Look again" title="Look again"><${Icon} name="refresh" /></button>
          </form>
        </header>
        ${error && html`<${Empty} title=${error.code === "unauthorized" ? "Not with this key" : "That did not work"}>${textOf(error)}<//>`}
        ${above && html`<div class="in spread">${above}</div>`}
        ${messages.length > 0 ? html`<${Rows} ...${{ messages: shown, view, dead, scheduled, chosen, choose, checked, setChecked, picked }} />`
        : !loading && !error && (fits.always ? html`<${Empty} title=${teach[view][0]}>${teach[view][1]}<//>` : html`<${Empty} title="No message fits the filter">${amount(seen)} were searched.<//>`)}
        ${loading && messages.length === 0 && html`<${Loading} what=${seen ? `${amount(seen)} searched` : undefined} />`}
        ${(below || messages.length > 0) && html`<div class="in spread"><span class="muted">${amount(messages.length)} shown${!fits.always && seen ? `, ${amount(seen)} searched` : ""}</span>
          ${below}</div>`}
      </section>
      ${current && html`<${Detail} key=${current.sequenceNumber} message=${current} entity=${entity} close=${() => choose()}><${Actions} ...${{ entity, target, view, message: current }} /><//>`}
    </div>`;
}

function FilterBy({ value, set, apply, active }) {
  const put = (name) => (v) => set({ ...value, [name]: v });
  const field = (label, name, more) => html`<${Input} label=${label} value=${value[name]} set=${put(name)} ...${more} />`;
  return html`<details class="filter"><summary class="button small">Filter${active ? " is on" : ""}</summary>
    <form class="form" onSubmit=${(e) => { e.preventDefault(); apply(value); }}>
      <div class="fields">${field("Message or correlation id", "id", { placeholder: "contains" })}${field("Property", "property", { placeholder: "region = eu", hint: "User or broker property; a name alone matches any value" })}
        ${field("Body", "body", { placeholder: "contains" })}${field("Enqueued since", "since", { type: "datetime-local", step: "1", hint: zone.value })}${field("Enqueued until", "until", { type: "datetime-local", step: "1", hint: zone.value })}</div>
      <div class="actions"><button class="button primary small">Apply</button>
        <button type="button" class="button small" onClick=${() => { set(noFilter); apply(noFilter); }}>Clear</button></div></form></details>`;
}

/** The list: only the rows in sight are drawn. */
function Rows({ messages, view, dead, scheduled, chosen, choose, checked, setChecked, picked }) {
  const { box, first, end, before, after } = useSight(messages.length), drawn = messages.slice(first, end);
  const digits = Math.max(...[messages[0], messages.at(-1)].map((m) => String(m.sequenceNumber).length)), timeOf = ({ broker: b }) => time(scheduled ? b.ScheduledEnqueueTimeUtc : b.EnqueuedTimeUtc);
  const days = [messages[0], messages.at(-1)].some((m) => timeOf(m).includes(" ")); // not today
  const check = (n, on) => setChecked((old) => { const s = new Set(old); if (on) s.add(n); else s.delete(n); return s; });
  const step = (e) => {
    if (e.key === "Escape") choose();
    const way = { ArrowDown: 1, ArrowUp: -1 }[e.key], rows = [...box.ref.current.querySelectorAll("button.link")];
    const next = way && rows[rows.indexOf(e.target) + way];
    if (!next) return;
    e.preventDefault();
    next.focus();
    next.click();
  };
  return html`<div class="scroll rows" ...${box} onKeyDown=${step}>
    <table aria-rowcount=${messages.length + 1}><thead><tr>
      <th class="checks"><input type="checkbox" aria-label="Choose all" checked=${picked.length === messages.length} onChange=${(e) => setChecked(new Set(e.target.checked ? messages.map((m) => m.sequenceNumber) : []))} /></th>
      <th style=${{ width: `max(5.8rem, ${digits + 4}ch)` }}>Number</th><th class=${dead && "less"}>Message id</th>${dead ? html`<th>Reason</th>` : html`<th class="less">Label</th>`}<th>Body</th>
      <th class=${`extra ${days ? "days" : "times"}`}>${scheduled ? "Becomes active" : "Enqueued"}</th>${!scheduled && html`<th class="num deliveries extra">Deliveries</th>`}${view === "messages" && html`<th class="state extra">State</th>`}
    </tr></thead>
    <tbody>${before}${drawn.map((m, i) => { const n = m.sequenceNumber, b = m.broker; return html`<tr key=${n} aria-rowindex=${first + i + 2} class=${"row-height pick" + (n === chosen ? " chosen" : "")} onClick=${() => choose(n === chosen ? undefined : n)}>
      <td class="tight" onClick=${(e) => e.stopPropagation()}><input type="checkbox" aria-label=${`Choose ${n}`} checked=${checked.has(n)} onChange=${(e) => check(n, e.target.checked)} /></td>
      <td class="tight"><button class="button link" aria-expanded=${n === chosen} aria-label=${`Message ${n}`} onClick=${(e) => { e.stopPropagation(); choose(n === chosen ? undefined : n); }}>${n}</button></td>
      <td class=${dead && "less"}><div class="clip">${b.MessageId === undefined ? "–" : toText(b.MessageId)}</div></td>
      <td class=${!dead && "less"}><div class="clip">${dead ? m.properties.DeadLetterReason ?? "–" : b.Label ?? "–"}</div></td>
      <td><div class="clip mono">${preview(m)}</div></td>
      <td class="extra"><div class="clip">${timeOf(m)}</div></td>
      ${!scheduled && html`<td class="num extra">${b.DeliveryCount ?? 0}</td>`}
      ${view === "messages" && html`<td class="extra"><span class=${"badge" + (b.State === "Active" ? "" : " accent")}>${b.State}</span></td>`}
    </tr>`; })}${after}</tbody></table></div>`;
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
    ${may("Manage") && (message.broker.State !== "Active" || message.broker.LockedUntilUtc) && html`<${Action} class="primary" run=${() => activate(entity, [message])}>${message.broker.State === "Active" ? "Unlock" : "Make available"}<//>`}
    ${may("Manage") && message.broker.State === "Scheduled" && html`<${Action} run=${() => reschedule(entity, [message])}>Reschedule<//>`}
    ${message.broker.State === "Scheduled" && html`<${Action} class="danger" run=${() => cancel(entity, [message])}>Cancel<//>`}
    ${message.broker.State === "Deferred" && html`<${Action} class="primary" icon="receive" run=${() => receiveDeferred(entity, number)}>Receive<//>`}
    ${may("Send") && !/\/subscriptions\//i.test(entity) && html`<${Action} icon="send" run=${() => editAndSend(entity, message)}>Send a copy<//>`}`;
}
