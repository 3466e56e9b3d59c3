// Bringing dead letters back, or removing them.
import { html, Check, Form, Icon, Input, open, textOf, useRef, useState } from "./ui.js";
import { bus, changed, mayList } from "./session.js";
import { Mover } from "./move.js";
import { copyOf, draftOf, write } from "./compose.js";

/** Asks where to and how, and sends dead letters again. `edit` lets one be changed before. */
export function resubmit(entity, target, messages, edit = false) {
  if (!edit) return open(messages.length === 1 ? "Resubmit" : `Resubmit ${messages.length} messages`, (close) => html`<${Resubmitting} ...${{ entity, target, messages, close }} />`);
  const [message] = messages;
  return write(`Edit and resubmit to ${target}`, "Resubmit", draftOf(message), async (edited) => {
    const outcome = await new Job(entity, messages, moveTo(target, () => edited)).run(() => {});
    changed();
    if (outcome.failed.length > 0) throw new Error(outcome.failed[0].text);
    return `Message ${message.sequenceNumber} is resubmitted.`;
  }, { note: steps });
}

const steps = "The page first sends a message and then removes it from the dead-letter queue. If it cannot remove the message, the message is in both entities, and the page shows this.";

/** Deletes dead letters that were chosen. */
export function discard(entity, messages) {
  return open(messages.length === 1 ? "Delete the message?" : `Delete ${messages.length} messages?`, (close) => html`
    <${Working} ...${{ messages, close, action: "Delete", danger: true, job: () => new Mover(entity, { messages }), done: "deleted" }}><p class="prose">This cannot be undone.</p><//>`);
}

/** Sends all dead letters again that are there now, `count` of them. */
export const resubmitAll = (entity, target, count) => open(`Resubmit all ${count.toLocaleString()}`, (close) => html`<${Resubmitting} ...${{ entity, target, count, close }} />`);

function Resubmitting({ entity, target, messages, count, close }) {
  const [to, setTo] = useState(target), [fresh, setFresh] = useState(false);
  const job = () => (mayList() ? new Mover(entity, { messages, count, to: to.trim(), dropReasons: true, newMessageIds: fresh }) : new Job(entity, messages, moveTo(to.trim(), (d) => {
    const copy = copyOf(d);
    if (fresh) copy.broker.MessageId = crypto.randomUUID();
    return copy;
  }), count));
  return html`<${Working} ...${{ messages, count, close, action: "Resubmit", job, done: "resubmitted" }}>
    <${Input} label="To" required value=${to} set=${setTo} hint=${/\/subscriptions\//i.test(entity) && to === target ? "The topic: every subscription with a matching rule gets a copy, not only this one." : undefined} />
    <${Check} label="Give each message a new message id" value=${fresh} set=${setFresh} hint="Needed if the target's duplicate detection has seen the old id." />
    <p class="note">${mayList() ? "Each message is moved once, even after an interruption. A message that the target refuses stays here." : steps}</p><//>`;
}

/** A step that sends a dead letter and removes it then. */
const moveTo = (target, messageOf) => async (delivery) => {
  const [number] = await bus().send(target, messageOf(delivery));
  if (number === 0) throw new Error("not sent: duplicate detection has seen its message id before. It stays here.");
  try {
    await delivery.complete();
  } catch (e) {
    throw new Error(`sent, but not removed here, so it now exists twice: ${textOf(e)}`);
  }
};

/**
 * A form, then progress, then what came of it. `job` makes what is done, for `messages` or for `count` of them;
 * `first` comes before, and has done `already` messages.
 */
export function Working({ messages, count = messages?.length, already = 0, first, close, action, danger, job: make, done, children }) {
  const [state, setState] = useState();
  const job = useRef();
  if (!state) {
    const start = async () => {
      await first?.();
      job.current = make();
      let outcome = { done: 0, failed: [] };
      const tell = (s) => setState(outcome = s);
      tell(outcome);
      try {
        outcome = await job.current.run(tell);
      } catch (e) {
        outcome = { ...outcome, problem: textOf(e) };
      }
      outcome.done += already;
      changed();
      if (outcome.failed.length === 0 && !outcome.problem && !job.current.cancelled) return close(`${outcome.done} ${done}.`);
      setState({ ...outcome, over: true });
    };
    return html`<${Form} action=${action} danger=${danger} submit=${start} cancel=${() => close()}>${children}<//>`;
  }
  const cancel = () => {
    job.current.cancelled = true;
    setState((s) => ({ ...s }));
  };
  return html`<div class="form">
    <progress max=${count + already} value=${state.done + state.failed.length} aria-label="Progress"></progress>
    <p role="status">${state.done} of ${count + already} ${done}${state.failed.length > 0 ? `, ${state.failed.length} not` : ""}${job.current.cancelled ? (state.over ? "; cancelled, the rest is untouched" : "; finishing …") : ""}.</p>
    ${state.problem && html`<p class="note bad" role="alert">${state.problem}</p>`}
    ${state.failed.length > 0 && html`<div class="note bad"><ul class="why">${state.failed.slice(0, 50).map((f) => html`<li>${f.number}: ${f.text}</li>`)}</ul></div>`}
    <div class="actions">${state.over
      ? html`<button type="button" class="button primary" autofocus onClick=${() => close()}>Close</button>`
      : html`<button type="button" class="button" disabled=${job.current.cancelled} onClick=${cancel}><${Icon} name="close" />Cancel the rest</button>`}</div>
  </div>`;
}

const batch = 100;

/**
 * Carries out a step for each of some messages. Messages cannot be received by
 * number, so the queue is gone through under lock; those that are not meant are
 * released afterwards, without counting a delivery.
 */
export class Job {
  cancelled = false;

  constructor(entity, messages, step, count = messages?.length) {
    this.entity = entity;
    this.step = step;
    this.left = count;
    this.wanted = messages && new Set(messages.map((m) => m.sequenceNumber));
  }

  /** Calls tell({done, failed}) after each message, and resolves to the last. */
  async run(tell) {
    const state = { done: 0, failed: [] }, others = new Set();
    if (this.left === 0) return state;
    const feed = bus().receive(this.entity, { prefetch: 0, bodies: "binary" });
    try {
      while (this.left > 0 && !this.cancelled) {
        const deliveries = await feed.take(batch, 2);
        if (deliveries.length === 0) break;
        deliveries.forEach((d) => others.add(d));
        for (const d of deliveries) {
          if (this.cancelled || this.left === 0) break;
          if (this.wanted && !this.wanted.delete(d.sequenceNumber)) continue;
          this.left--;
          try {
            await this.step(d);
            others.delete(d);
            state.done++;
          } catch (e) {
            state.failed.push({ number: d.sequenceNumber, text: textOf(e) });
          }
          tell({ ...state, failed: [...state.failed] });
        }
      }
    } finally {
      await Promise.allSettled([...others].map((d) => d.release()));
      await feed.close();
    }
    if (!this.cancelled) for (const number of this.wanted ?? []) state.failed.push({ number, text: "it is not here any more, or another receiver has locked it." });
    return state;
  }
}
