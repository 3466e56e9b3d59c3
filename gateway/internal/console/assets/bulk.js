// What is done with many messages at once.
import { html, complain, confirm, Field, Form, Input, open, textOf, useState } from "./ui.js";
import { ask, pathOf } from "./adminapi.js";
import { instantOf, localTime, zone } from "./zone.js";
import { bus, changed } from "./session.js";
import { now } from "./gateway.js";
import { amount } from "./format.js";
import { messagesOf } from "./files.js";
import { Mover } from "./move.js";
import { Working } from "./resubmit.js";

const numbers = (messages) => messages.map((m) => m.sequenceNumber);
const inState = (messages, state) => messages.filter((m) => m.broker.State === state);

export async function cancel(entity, messages) {
  const what = messages.length === 1 ? `Message ${messages[0].sequenceNumber} is` : `${messages.length} messages are`;
  if (!(await confirm("Cancel the scheduled messages?", `${what} deleted and will never be delivered.`, "Cancel delivery"))) return;
  await bus().cancel(entity, numbers(messages));
  changed();
  return messages.length === 1 ? "It is cancelled." : `${messages.length} are cancelled.`;
}

/** Makes deferred, locked and scheduled messages available now or, scheduled ones, `at` a time. */
export async function activate(entity, messages, at) {
  const { moved, absent = [], refused = [] } = await ask(`messages/${pathOf(entity)}`, { method: "POST", body: JSON.stringify({ numbers: numbers(messages), activate: true, at }) });
  changed();
  if (refused.length > 0) throw new Error(`Message ${refused[0].number}: ${refused[0].error}`);
  if (absent.length > 0) throw new Error(`Message ${absent[0]} does not exist any more, or is available already.`);
  return at ? `${amount(moved)} rescheduled.` : `${amount(moved)} available now.`;
}

/** Asks when scheduled messages should become active. */
export const reschedule = (entity, messages) => open("Reschedule", (close) => html`<${Rescheduling} ...${{ entity, messages, close }} />`);

function Rescheduling({ entity, messages, close }) {
  const [at, setAt] = useState(localTime(new Date(messages[0].broker.ScheduledEnqueueTimeUtc)));
  return html`<${Form} action="Reschedule" submit=${async () => close(await activate(entity, messages, instantOf(at)))} cancel=${() => close()}>
    <${Input} label="Becomes active" type="datetime-local" step="1" required value=${at} set=${setAt} hint=${zone.value} autofocus /><//>`;
}

/** Receives deferred messages for ever, those of each session under its lock. */
async function receiveDeferred(entity, sessions, messages) {
  const options = { mode: "receiveAndDelete" };
  if (!sessions) return bus().receiveDeferred(entity, numbers(messages), options);
  for (const session of new Set(messages.map((m) => m.broker.SessionId))) {
    const feed = bus().receive(entity, { session, prefetch: 0 });
    try {
      await feed.receiveDeferred(numbers(messages.filter((m) => m.broker.SessionId === session)), options);
    } finally {
      await feed.close();
    }
  }
}

/** Deletes messages in any state: the scheduled ones are cancelled, deferred ones received by number, active ones taken out under lock. */
export async function remove(entity, settings, messages) {
  const active = inState(messages, "Active"), deferred = inState(messages, "Deferred"), scheduled = inState(messages, "Scheduled");
  const first = async () => {
    if (scheduled.length > 0) await bus().cancel(entity, numbers(scheduled));
    if (deferred.length > 0) await receiveDeferred(entity, settings?.RequiresSession, deferred);
  };
  return open(`Delete ${amount(messages.length)} message${messages.length === 1 ? "" : "s"}?`, (close) => html`
    <${Working} ...${{ messages: active, already: deferred.length + scheduled.length, first, close, action: "Delete", danger: true, job: () => new Mover(entity, { messages: active }), done: "deleted" }}>
      <p class="prose">This cannot be undone. Messages that other receivers have locked stay, and so do all messages of sessions that receivers hold.</p><//>`);
}

export function deadLetter(entity, messages) {
  const active = inState(messages, "Active"), why = { reason: "ConsoleDeadLettered", description: "An operator dead-lettered the message in the console." };
  return open("Dead-letter the chosen messages?", (close) => html`
    <${Working} ...${{ messages: active, close, action: "Dead-letter", done: "dead-lettered", job: () => new Mover(entity, { messages: active, deadLetter: why }) }}>
      <p class="prose">Active messages go to the dead-letter queue, except messages that other receivers have locked, and messages of sessions that other receivers hold.</p><//>`);
}

export async function purge(entity, dead) {
  if (!(await confirm(dead ? "Delete all dead letters?" : "Delete all messages?", `All ${dead ? "dead letters" : "messages"} that are here now are deleted, also those that are not shown${dead ? "" : "; locked, deferred and scheduled ones stay"}. This cannot be undone.`, "Delete all"))) return;
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

/** Sends the messages of a file that this page has downloaded. */
export const upload = (entity) => open(`Upload messages to ${entity}`, (close) => html`<${Uploading} ...${{ entity, close }} />`);

const group = 100; // messages sent at once, all or none

const keyOf = ({ broker }) => broker.SessionId ?? broker.PartitionKey;

/** The messages from one on that are sent at once: a partitioned entity takes one key at a time. */
const groupAt = (all, at) => {
  const some = all.slice(at, at + group), end = some.findIndex((m) => keyOf(m) !== keyOf(some[0]));
  return end < 0 ? some : some.slice(0, end);
};

function Uploading({ entity, close }) {
  const [file, setFile] = useState(), [done, setDone] = useState(0);
  const submit = async () => {
    const all = messagesOf(await file.text());
    if (all.length === 0) throw new Error("The file has no messages.");
    let sent = done;
    try {
      for (; sent < all.length; setDone(sent)) {
        const some = groupAt(all, sent);
        await bus().send(entity, some);
        sent += some.length;
      }
    } catch (e) {
      throw new Error(`${amount(sent)} of ${amount(all.length)} were sent, the others were not: ${textOf(e)} Press “Upload” to continue with the first message that was not sent.`);
    } finally {
      changed();
    }
    close(`${amount(all.length)} sent.`);
  };
  return html`<${Form} action="Upload" submit=${submit} cancel=${() => close(done ? `${amount(done)} sent.` : undefined)}>
    <${Field} label="File" hint="Lines of JSON, as “Download” writes them">${(a) => html`<input ...${a} type="file" required accept=".jsonl,.ndjson,.json" onChange=${(e) => { setFile(e.target.files[0]); setDone(0); }} />`}<//>
    ${done > 0 && html`<p role="status">${amount(done)} sent.</p>`}<//>`;
}
