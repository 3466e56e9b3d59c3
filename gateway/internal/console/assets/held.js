// Messages that this page has received and not yet settled.
import { html, Action, Check, effect, Form, Input, open, signal, textOf, useEffect, useState } from "./ui.js";
import { bus, changed, session } from "./session.js";
import { toText } from "./values.js";
import { until } from "./format.js";
import { now } from "./gateway.js";
import { Detail } from "./detail.js";

/** {entity, delivery, feed?}: the feed is a session's, and ends with its last message. */
const held = signal([]);
effect(() => { if (!session.value) held.value = []; });

/** The messages of an entity that this page has under lock, with the ways to settle them. */
export function Held({ entity }) {
  const [chosen, choose] = useState();
  const [, tick] = useState(0);
  const mine = held.value.filter((h) => h.entity === entity);
  useEffect(() => {
    if (mine.length === 0) return;
    const timer = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, [mine.length > 0]);
  if (mine.length === 0) return null;
  const current = mine.find((h) => h.delivery === chosen);
  const all = (outcome, word) => async () => {
    const results = await Promise.allSettled(mine.map((h) => settle(h, outcome)));
    const failed = results.filter((r) => r.status === "rejected");
    changed();
    if (failed.length > 0) throw new Error(`${failed.length} of ${mine.length} were not ${word}: ${textOf(failed[0].reason)}`);
    return `${mine.length} ${word}.`;
  };
  return html`<div class=${"browser" + (current ? "" : " alone")}>
    <section class="card" aria-label="Received messages">
      <header><h2>Received, locked for you</h2><span class="badge accent">${mine.length}</span>
        <div class="push actions"><${Action} class="small" run=${all("complete", "completed")}>Complete all<//><${Action} class="small" run=${all("abandon", "abandoned")}>Abandon all<//></div></header>
      <div class="scroll"><table><thead><tr><th class="tight">Number</th><th>Message id</th><th class="tight">Lock</th><th>Settle</th></tr></thead>
        <tbody>${mine.map((h) => { const d = h.delivery; return html`<tr key=${d.lockToken} class=${d === chosen ? "chosen" : ""}>
          <td class="tight"><button class="button link" aria-expanded=${d === chosen} aria-label=${`Received message ${d.sequenceNumber}`} onClick=${() => choose(d === chosen ? undefined : d)}>${d.sequenceNumber}</button></td>
          <td><div class="clip">${d.broker.MessageId === undefined ? "–" : toText(d.broker.MessageId)}</div></td>
          <td class="tight">${until(h.feed?.lockedUntil ?? d.lockedUntil, now()) || "ended"}${h.feed && html` <small>session ${h.feed.session || "with the empty id"}</small>`}</td>
          <td><${Outcomes} of=${h} /></td></tr>`; })}</tbody></table></div>
    </section>
    ${current && html`<${Detail} message=${current.delivery} entity=${entity} close=${() => choose()}><${Outcomes} of=${current} /><//>`}
  </div>`;
}

const words = { complete: "completed", abandon: "back in the queue", defer: "deferred", deadLetter: "in the dead-letter queue" };

function Outcomes({ of }) {
  const one = (outcome) => async () => {
    const number = of.delivery.sequenceNumber;
    await settle(of, outcome);
    changed();
    return `Message ${number} is ${words[outcome]}.`;
  };
  const bury = async () => {
    const why = await open("Dead-letter the message", (close) => html`<${Reason} close=${close} />`);
    if (!why) return;
    await settle(of, "deadLetter", why);
    changed();
    return `Message ${of.delivery.sequenceNumber} is ${words.deadLetter}.`;
  };
  return html`<div class="actions">
    <${Action} class="small" run=${one("complete")}>Complete<//><${Action} class="small" run=${one("abandon")}>Abandon<//>
    ${!of.entity.endsWith("/$DeadLetterQueue") && html`<${Action} class="small" run=${one("defer")}>Defer<//><${Action} class="small" run=${bury}>Dead-letter<//>`}</div>`;
}

function Reason({ close }) {
  const [reason, setReason] = useState(""), [description, setDescription] = useState("");
  return html`<${Form} action="Dead-letter" submit=${async () => close({ reason, description })} cancel=${() => close()}>
    <${Input} label="Reason" value=${reason} set=${setReason} autofocus hint="A short word for programs" />
    <${Input} label="Description" value=${description} set=${setDescription} /><//>`;
}

/** Settles; what is not under lock any more leaves the list as well. */
async function settle(h, outcome, why) {
  try {
    await h.delivery[outcome](why);
  } catch (e) {
    if (!/lock_lost/.test(e.code)) throw e;
    drop(h);
    throw new Error(`Message ${h.delivery.sequenceNumber}: the lock has ended, so another receiver may have the message now.`);
  }
  drop(h);
}

function drop(h) {
  held.value = held.value.filter((other) => other !== h);
  if (h.feed && !held.value.some((other) => other.feed === h.feed)) h.feed.close();
}

/** Asks how to receive, and receives. `sessions` says whether the entity has any; undefined: this key may not know. */
export function receive(entity, sessions) {
  return open("Receive", (close) => html`<${Receiving} ...${{ entity, sessions, close }} />`);
}

function Receiving({ entity, sessions, close }) {
  const [count, setCount] = useState("1"), [removing, setRemoving] = useState(false);
  const [session, setSession] = useState(""), [empty, setEmpty] = useState(false), [numbers, setNumbers] = useState("");
  const [found, setFound] = useState();
  const submit = async () => {
    const which = session || (empty && sessions) ? { session } : sessions ? { nextSession: true, wait: 3 } : {};
    const ofSession = Object.keys(which).length > 0;
    const feed = bus().receive(entity, { mode: removing ? "receiveAndDelete" : "peekLock", prefetch: 0, bodies: "binary", ...which });
    let messages = [];
    try {
      messages = await feed.take(Number(count), 3);
    } catch (e) {
      throw e.code === "timeout" && which.nextSession ? new Error("No free session has messages.") : e;
    } finally {
      if (!ofSession || removing || messages.length === 0) await feed.close();
    }
    if (messages.length === 0) throw new Error("No message arrived within 3 seconds. Deferred, scheduled and locked messages are not delivered.");
    changed();
    if (removing) return setFound(messages);
    hold(entity, messages, ofSession ? feed : undefined);
    close();
  };
  const deferred = async () => {
    await receiveDeferred(entity, ...numbers.split(/[\s,]+/).filter(Boolean).map(Number));
    close();
  };
  if (found) return html`<div class="page">${found.map((m) => html`<${Detail} message=${m} />`)}</div>`;
  return html`<div class="form">
    <${Form} action=${removing ? "Receive and delete" : "Receive"} danger=${removing} submit=${submit} cancel=${() => close()}>
      <${Input} label="How many" type="number" min="1" max="100" required value=${count} set=${setCount} autofocus />
      ${sessions !== false && html`<${Input} label="Session" value=${session} set=${setSession} placeholder=${sessions ? "the next one that is free" : "none"} hint="This page holds the session until its last message is settled." />`}
      ${sessions && !session && html`<${Check} label="The session whose id is empty" value=${empty} set=${setEmpty} />`}
      <${Check} label="Delete while receiving" value=${removing} set=${setRemoving} hint="Otherwise the messages stay locked for you until you settle them or their locks expire. Each receive counts as a delivery." />
    <//>
    ${!sessions && html`<details><summary>Deferred messages, by number</summary>
      <${Form} action="Receive deferred" submit=${deferred}><${Input} label="Sequence numbers" placeholder="17, 18" required value=${numbers} set=${setNumbers} /><//>
    </details>`}
  </div>`;
}

/** Receives what was deferred, by its numbers, under lock. */
export async function receiveDeferred(entity, ...numbers) {
  if (numbers.length === 0 || numbers.some((n) => !Number.isSafeInteger(n) || n < 1)) throw new Error("Write the sequence numbers of deferred messages.");
  const deliveries = await bus().receiveDeferred(entity, numbers, { bodies: "binary" });
  hold(entity, deliveries);
  changed();
}

function hold(entity, deliveries, feed) {
  held.value = [...held.value, ...deliveries.map((delivery) => ({ entity, delivery, feed }))];
}
