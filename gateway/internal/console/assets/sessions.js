// Sessions: their ids, state and messages.
import { html, Action, confirm, Empty, Field, Form, Input, Loading, open, Select, textOf, useEffect, useLoaded, useState } from "./ui.js";
import { ask, pathOf } from "./adminapi.js";
import { bus, changed, changes, may } from "./session.js";
import { usePoll } from "./poll.js";
import { base64, fromBase64 } from "./values.js";
import { utf8, Body } from "./body.js";
import { amount, bytes, time } from "./format.js";

const page = 100;

export function Sessions({ entity }) {
  const [top, setTop] = useState(page), [search, setSearch] = useState(""), [{ list, problem }, set] = useState({});
  const load = async () => {
    try {
      set({ list: await listSessions(entity, top) });
    } catch (e) {
      set((before) => ({ ...before, problem: e }));
      throw e;
    }
  };
  usePoll(load, 3, [entity, top, changes.value]);
  const found = (list ?? []).filter((s) => s.session.toLowerCase().includes(search.toLowerCase()));
  return html`<section class="card">
    <header><h2>Sessions</h2><span class="muted">with messages or state</span>
      <div class="push spread"><input type="search" aria-label="Search sessions" placeholder="Search" value=${search} onInput=${(e) => setSearch(e.target.value)} style=${{ width: "12rem" }} />
        <${Action} run=${load} icon="refresh" label="Look again" /></div></header>
    ${problem && !list ? html`<${Empty} title="That did not work">${textOf(problem)}<//>`
    : !list ? html`<${Loading} />`
    : found.length === 0 ? html`<${Empty} title=${search ? "No session has that id" : "No sessions"}>${search ? "" : "A session begins with its first message: send one with a SessionId."}<//>`
    : html`<div class="scroll"><table aria-label="Sessions"><thead><tr><th>Session</th><th class="num">Available</th><th class="num">Locked</th><th class="num">Deferred</th><th class="num">State</th><th>Locked until</th><th>Holder</th><th class="tight stays"></th></tr></thead>
      <tbody>${found.map((s) => html`<tr key=${s.session}>
        <td class="wrap mono">${s.session || html`<em>empty</em>`}</td>
        <td class="num">${amount(s.available)}</td><td class="num">${amount(s.locked)}${s.delayed > 0 && html` <span class="badge" title="A delayed message waits for its next delivery. Until then no message of the session is delivered.">paused</span>`}</td><td class="num">${amount(s.deferred)}</td><td class="num">${s.stateBytes === undefined ? "–" : bytes(s.stateBytes)}</td>
        <td>${s.lockedUntil ? time(s.lockedUntil) : html`<span class="muted">free</span>`}</td>
        <td>${s.holder ? html`<div class="clip"><a href="#/connections" title=${`${s.holder.product ?? ""} ${s.holder.connection}`}>${s.holder.product || s.holder.protocol}</a></div><small class="mono">${s.holder.peer}</small>` : s.lockedUntil ? html`<span class="muted" title="The holder is not connected to this gateway, or your key may not show it.">unknown</span>` : "–"}</td>
        <td class="tight stays">${s.lockedUntil && may("Manage") && html`<${Action} class="small danger" run=${() => unlock(entity, s.session)}>Unlock<//> `}<${Action} class="small" run=${() => look(entity, s.session)}>Open<//></td></tr>`)}</tbody></table></div>`}
    ${list?.length === top && html`<div class="in"><${Action} class="small" run=${async () => setTop(Math.min(top + page, most))}>Show more<//></div>`}
  </section>`;
}

const most = 1000; // sessions in one answer

async function listSessions(entity, top) {
  return (await ask(`sessions/${pathOf(entity)}?top=${top}`)).sessions;
}

async function unlock(entity, id) {
  if (!(await confirm("Unlock the session?", "The session's receiver loses the locks of the session and of its messages, and another receiver can get the session. Do this if the receiver is stuck.", "Unlock"))) return;
  await ask(`sessions/${pathOf(entity)}?session=${encodeURIComponent(id)}`, { method: "PUT", body: '{"unlock":true}' });
  changed();
  return `${named(id)} is unlocked.`;
}

const named = (id) => (id ? `Session ${id}` : "The session with the empty id");

/** Takes a session's lock, or takes it over, and shows it; closing the dialog gives it back. */
async function look(entity, id, sessionLockToken) {
  const feed = bus().receive(entity, { session: id, prefetch: 0, bodies: "binary", exclusive: false, sessionLockToken });
  try {
    await feed.ready;
  } catch (e) {
    if (e.code !== "session_locked") throw e;
    if (sessionLockToken) throw new Error("That is not the token of the session's lock.");
    const token = await open(named(id), (close) => html`<${TakeOver} close=${close} />`);
    return token ? look(entity, id, token) : undefined;
  }
  try {
    await open(named(id), () => html`<${Session} feed=${feed} />`, true);
  } finally {
    await feed.close();
    changed();
  }
}

function TakeOver({ close }) {
  const [token, setToken] = useState("");
  return html`<${Form} action="Take over" submit=${async () => close(token.trim())} cancel=${() => close()}>
    <p class="muted">Another receiver holds this session. This page can show the session's messages when that receiver releases the session, or when this page takes the session over. The other receiver then loses the session, and the messages that it has locked stay locked.</p>
    <${Input} label="Token of the session's lock" value=${token} set=${setToken} required autofocus hint="Receivers of non-exclusive sessions have this token." />
  <//>`;
}

function Session({ feed }) {
  const state = useLoaded(() => feed.state(), [feed]);
  const messages = useLoaded(() => feed.peek({ max: 100, bodies: "binary" }), [feed]);
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 5000);
    return () => clearInterval(timer);
  }, []);
  return html`<div class="form">
    <p class="muted">This page holds the session's lock until ${time(feed.lockedUntil)}, renews the lock, and releases it when you close this view.</p>
    <details><summary>Hand the session over</summary><p class="muted">A receiver that shows this token takes the session over, with its state, its locks and its order. Give it only to a receiver that may have the session.</p><p class="mono wrap">${feed.sessionLockToken}</p></details>
    <fieldset><legend>State</legend>${state.error ? textOf(state.error) : state.loading ? html`<${Loading} />` : html`<${State} key=${state.value} feed=${feed} bytes=${state.value} again=${state.again} />`}</fieldset>
    <fieldset><legend>Messages</legend>${messages.error ? textOf(messages.error) : messages.loading ? html`<${Loading} />`
      : messages.value.length === 0 ? html`<p class="muted">The session has no messages.</p>`
      : messages.value.map((m) => html`<details key=${m.sequenceNumber}><summary>${m.sequenceNumber} · ${m.broker.Label ?? m.broker.MessageId ?? "no label"} · ${time(m.broker.EnqueuedTimeUtc)} <span class="badge">${m.broker.State}</span></summary><${Body} message=${m} /></details>`)}</fieldset>
  </div>`;
}

function State({ feed, bytes, again }) {
  const text = bytes ? utf8(bytes) : "";
  const [kind, setKind] = useState(text === undefined ? "Base64" : "Text");
  const [content, setContent] = useState(text ?? base64(bytes));
  const set = async () => {
    const state = kind === "Text" ? content : fromBase64(content);
    if (state === undefined) throw new Error("That is not base64.");
    await feed.setState(state);
    again();
  };
  const clear = async () => {
    if (!(await confirm("Clear the state?", "The session will have no state. This cannot be undone.", "Clear"))) return;
    await feed.setState(null);
    again();
  };
  return html`<p>${bytes === null ? "The session has no state." : `${bytes.length} bytes.`}</p>
    <${Form} action="Set state" submit=${set}>
      <${Select} label="As" value=${kind} set=${setKind} options=${["Text", "Base64"]} />
      <${Field} label="Content">${(a) => html`<textarea ...${a} value=${content} onInput=${(e) => setContent(e.target.value)} spellcheck=${false}></textarea>`}<//>
    <//>
    ${bytes !== null && html`<div><${Action} class="danger small" run=${clear}>Clear state<//></div>`}`;
}
