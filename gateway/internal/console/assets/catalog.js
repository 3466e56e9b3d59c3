// The entities that the page knows, with their counts and rates.
import { bus, mayList } from "./session.js";
import { batch, signal } from "./ui.js";

const kept = 300; // samples: five minutes of one that is looked at
const span = 5000; // ms that a rate is the mean of
const fresh = 700; // ms for which an answer is fresh

/** An entity: `data` is what the gateway last said of it, `flow` its rates. */
class Entry {
  data = signal();
  flow = signal({});
  samples = [];
  subscriptions = signal(null); // of a topic: names, null until they were asked for

  constructor(kind, name) {
    this.kind = kind;
    this.name = name;
    [this.topic, this.short] = kind === "subscription" ? name.split(/\/subscriptions\//i) : ["", name];
  }

  take(data) {
    const { enqueued, active, scheduled, deadLetter } = data.counts, last = this.samples.at(-1);
    const sample = { t: Date.now(), enqueued, active, scheduled, deadLetter };
    batch(() => {
      this.data.value = data;
      if (last && sample.t - last.t < fresh) return;
      const first = this.samples.find((s) => s.t >= sample.t - span) ?? last;
      this.flow.value = flowBetween(first, sample);
      this.samples = [...this.samples.slice(-kept), { ...sample, ...this.flow.value }];
    });
  }
}

/**
 * Messages a second between two samples. What came in and is not there any more
 * went out; a message that is scheduled counts as come in, and again when it
 * becomes active.
 */
export function flowBetween(a, b) {
  if (!a || b.t <= a.t || b.enqueued < a.enqueued) return {};
  const seconds = (b.t - a.t) / 1000, came = b.enqueued - a.enqueued;
  const left = came - (b.active - a.active) - Math.max(b.scheduled - a.scheduled, 0);
  return { in: came / seconds, out: Math.max(left, 0) / seconds };
}

const entries = new Map();

/** Names of queues and topics in order; null until they are known. */
export const names = signal(null);

/** The rates of all queues and topics together over time. */
export const totals = signal([]);

/** Adds something up over entities, by default over all queues and topics. */
export const sum = (of, list = roots()) => list.reduce((all, e) => all + (of(e) ?? 0), 0);

export const roots = () => (names.value ?? []).map(entryOf).filter(Boolean);

/** The subscriptions of a topic that are known. */
export const subscriptionsOf = (entry) => (entry.subscriptions.value ?? []).map(entryOf).filter(Boolean);

/** All entities that are known. */
export const everything = () => roots().flatMap((e) => [e, ...subscriptionsOf(e)]);

/** Counts of an entity, none before the gateway has said. */
export const counts = (e) => e.data.value?.counts ?? {};

/** Dead letters of an entity, those of transfers included, and of a topic's subscriptions. */
export const deadLetters = (e) => sum((one) => (counts(one).deadLetter ?? 0) + (counts(one).transferDeadLetter ?? 0), [e, ...subscriptionsOf(e)]);

/** Why there is no list. */
export const problem = signal(null);

const fold = (name) => name.toLowerCase();

export const entryOf = (name) => entries.get(fold(name));

/** The entry of what the gateway said. */
function learn(data) {
  let entry = entryOf(data.name);
  if (!entry || entry.kind !== data.kind) {
    entry = new Entry(data.kind, data.name);
    entries.set(fold(data.name), entry);
  }
  entry.take(data);
  return entry;
}

async function pages(kind, topic) {
  const all = [], top = 1000;
  for (let page; !page || page.length === top;) {
    page = await bus().entities(kind, { topic, skip: all.length, top });
    all.push(...page);
  }
  return all;
}

const inOrder = (list) => list.map((d) => d.name).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));

let loading;

/** Asks for all queues and topics, once for all callers; `anew` asks again even if a call is under way. */
export function load(anew = false) {
  if (loading && anew) return loading.then(() => load());
  return loading ??= loadAll().finally(() => { loading = undefined; });
}

async function loadAll() {
  if (!mayList()) return;
  try {
    const all = (await Promise.all([pages("queue"), pages("topic")])).flat();
    batch(() => {
      all.forEach(learn);
      names.value = inOrder(all);
      problem.value = null;
      if (!roots().some((e) => e.flow.value.in !== undefined)) return;
      const sample = { t: Date.now(), in: sum((e) => e.flow.value.in), out: sum((e) => (e.kind === "queue" ? e.flow.value.out : 0)) };
      totals.value = [...totals.value.slice(-kept), sample];
    });
  } catch (e) {
    problem.value = e;
  }
}

const atOnce = 100; // topics whose subscriptions are asked for in one round
let turn = 0;

/** Asks for the subscriptions of all topics, of some in each round where there are many. */
export async function loadAllSubscriptions() {
  const topics = roots().filter((e) => e.kind === "topic" && (counts(e).subscriptions > 0 || subscriptionsOf(e).length > 0));
  if (turn >= topics.length) turn = 0;
  const some = topics.slice(turn, turn + atOnce);
  turn += atOnce;
  await Promise.allSettled(some.map((e) => loadSubscriptions(e.name)));
}

const together = 10; // requests that are under way at the same time

/** Asks for the subscriptions of those topics whose subscriptions are not known yet. */
export async function loadMissingSubscriptions() {
  const left = roots().filter((e) => e.kind === "topic" && e.subscriptions.value === null && counts(e).subscriptions > 0);
  const work = async () => { for (let e; (e = left.pop());) await loadSubscriptions(e.name).catch(() => {}); }; // the next search asks again
  await Promise.all(Array.from({ length: together }, work));
}

export async function loadSubscriptions(topic) {
  const all = await pages("subscription", topic);
  batch(() => {
    all.forEach(learn);
    const entry = entryOf(topic), names = inOrder(all);
    if (entry && names.join("\n") !== entry.subscriptions.value?.join("\n")) entry.subscriptions.value = names;
  });
}

/** Asks for one entity, unless the answer is fresh; a deleted entity leaves the list. */
export async function refresh(name) {
  const known = entryOf(name);
  if (known?.samples.at(-1)?.t > Date.now() - fresh) return known;
  try {
    return learn(await bus().entity(name));
  } catch (e) {
    if (e.code === "not_found") forget(name);
    throw e;
  }
}

/** Takes what was created into the list. */
export function add(data) {
  const entry = learn(data), topic = entry.topic && entryOf(entry.topic);
  const list = topic ? topic.subscriptions : names;
  if (list.value && !list.value.some((n) => fold(n) === fold(data.name))) list.value = inOrder([...list.value.map((name) => ({ name })), data]);
}

export function forget(name) {
  const entry = entryOf(name);
  if (!entry) return;
  entries.delete(fold(name));
  const list = entry.topic ? entryOf(entry.topic)?.subscriptions : names;
  if (list?.value) list.value = list.value.filter((n) => fold(n) !== fold(name));
}

/** Forgets everything: another user signs in. */
export function clear() {
  entries.clear();
  names.value = problem.value = null;
  totals.value = [];
}
