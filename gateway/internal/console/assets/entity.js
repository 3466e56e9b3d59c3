// One queue, topic or subscription.
import { html, Action, confirm, Empty, Icon, Loading, textOf, useEffect, useState } from "./ui.js";
import { add, entryOf, forget, loadSubscriptions, refresh } from "./catalog.js";
import { bus, changed, changes, may } from "./session.js";
import { addressOf, go, route } from "./route.js";
import { amount, bytes, duration, time } from "./format.js";
import { usePoll } from "./poll.js";
import { Chart } from "./chart.js";
import { joined, useHistory, useSpan } from "./history.js";
import { flowSeries, Tile } from "./home.js";
import { Browser } from "./browser.js";
import { send } from "./compose.js";
import { upload } from "./bulk.js";
import { Sessions } from "./sessions.js";
import { Rules } from "./rules.js";
import { Tester } from "./tester.js";
import { Story } from "./story.js";
import { createEntity, Settings } from "./settings.js";

const kindWords = { queue: "Queue", topic: "Topic", subscription: "Subscription" };

/** Tabs by kind, with the rights that they need. */
function tabsOf(kind, data) {
  const manage = may("Manage"), listen = may("Listen");
  const queue = kind !== "topic", subscription = kind === "subscription";
  return [
    manage && ["", "Overview"],
    queue && listen && ["messages", "Messages", "active"],
    queue && listen && ["dead", "Dead letters", "deadLetter"],
    listen && (data?.counts.transferDeadLetter > 0 || route.value.tab === "transfer") && ["transfer", "Transfer dead letters", "transferDeadLetter"],
    !subscription && listen && ["scheduled", "Scheduled", "scheduled"],
    queue && listen && (data?.settings.RequiresSession ?? true) && ["sessions", "Sessions"],
    subscription && manage && ["rules", "Rules"],
    !queue && manage && ["tester", "Filter tester"],
    manage && ["story", "What happened"],
    manage && ["settings", "Settings"],
  ].filter(Boolean);
}

export function Entity({ name }) {
  const [problem, setProblem] = useState(), [known, setKnown] = useState(entryOf(name));
  const manage = may("Manage");
  usePoll(async () => {
    if (!manage) return;
    try {
      setKnown(await refresh(name));
      setProblem();
    } catch (e) {
      setProblem(e);
      throw e;
    }
  }, 1, [name, changes.value]);
  if (problem?.code === "not_found" || (problem && !known)) return html`<div class="page"><h1>${name}</h1><section class="card"><${Empty} title=${problem.code === "not_found" ? "There is no such entity" : "That did not work"}>${textOf(problem)}<//></section></div>`;
  if (manage && !known?.data.value) return html`<${Loading} />`;

  const data = known?.data.value;
  const kind = data?.kind ?? (/\/subscriptions\//i.test(name) ? "subscription" : "queue");
  const topic = kind === "subscription" ? name.split(/\/subscriptions\//i)[0] : undefined;
  const tabs = tabsOf(kind, data);
  const tab = tabs.some(([id]) => id === route.value.tab) ? route.value.tab : tabs[0]?.[0];
  return html`<div class="page">
    <div class="head">
      <div class="title">
        <div class="spread muted"><${Icon} name=${kind} />${manage ? kindWords[kind] : "Entity"}${topic && html` of <a href=${addressOf(topic)}>${topic}</a>`}<${Traits} data=${data} /></div>
        <h1>${topic ? name.slice(topic.length + "/Subscriptions/".length) : data?.name ?? name}</h1>
      </div>
      ${kind !== "subscription" && may("Send") && html`<${Action} class="primary" icon="send" run=${() => send(name)}>Send<//>`}
      ${kind === "topic" && manage && html`<${Action} icon="plus" run=${() => subscribe(name)}>Subscription<//>`}
      ${manage && /open/.test(data.circuitBreaker) && html`<${Action} run=${() => lift(name)}>Close circuit breaker<//>`}
      ${manage && html`<${Action} class="danger" icon="trash" run=${() => remove(kind, name)}>Delete<//>`}
    </div>
    <nav class="tabs" aria-label="Views">${tabs.map(([id, text, count]) => html`<a href=${addressOf(name, id)} aria-current=${id === tab ? "page" : undefined}>${text}
      ${data?.counts[count] > 0 && html`<span class=${"badge" + (/deadLetter/i.test(count) ? " bad" : "")}>${amount(data.counts[count])}</span>`}</a>`)}</nav>
    ${tab === undefined && html`<section class="card"><${Empty} title="Nothing to look at"><p>This key may only send.</p><${Action} run=${() => upload(name)}>Upload messages<//><//></section>`}
    ${tab === "" && html`<${Overview} entry=${known} />`}
    ${tab === "messages" && html`<${Browser} key="messages" entity=${name} settings=${data?.settings} counts=${data?.counts} view="messages" />`}
    ${tab === "dead" && html`<${Browser} key="dead" entity=${name + "/$DeadLetterQueue"} target=${topic ?? name} counts=${data?.counts} view="dead" />`}
    ${tab === "transfer" && html`<${Browser} key="transfer" entity=${name + "/$Transfer/$DeadLetterQueue"} target=${topic ?? name} counts=${data?.counts} view="transfer" />`}
    ${tab === "scheduled" && html`<${Browser} key="scheduled" entity=${name} view="scheduled" />`}
    ${tab === "sessions" && html`<${Sessions} entity=${name} />`}
    ${tab === "rules" && html`<${Rules} entity=${name} topic=${topic} />`}
    ${tab === "tester" && html`<${Tester} topic=${name} />`}
    ${tab === "story" && html`<${Story} entity=${name} topic=${topic} />`}
    ${tab === "settings" && html`<${Settings} entry=${known} />`}
  </div>`;
}

/** An update that changes nothing closes the circuit breaker at all gateways. */
async function lift(name) {
  await bus().update(name, {});
  changed();
}

const Traits = ({ data }) => data && html`
  ${data.settings.Status !== "Active" && html`<span class="badge warn">${data.settings.Status}</span>`}
  ${data.availability !== "Available" && html`<span class="badge warn">${data.availability}</span>`}
  ${data.settings.RequiresSession && html`<span class="badge accent">sessions</span>`}
  ${data.settings.RequiresDuplicateDetection && html`<span class="badge accent">duplicate detection</span>`}
  ${data.rateLimit && html`<span class="badge accent">at most ${data.rateLimit}</span>`}
  ${data.circuitBreaker && html`<span class=${`badge ${data.circuitBreaker === "closed" ? "accent" : "bad"}`}>circuit breaker ${data.circuitBreaker}</span>`}
  ${data.keepDeadLetters && html`<span class="badge accent">keeps dead letters ${data.keepDeadLetters.replace(/^P(\d+)D$/, "$1 days")}</span>`}
  ${data.partitions > 1 && html`<span class="badge accent">${data.partitions} partitions</span>`}
  ${data.settings.ForwardTo && html`<span class="badge accent">forwards to ${data.settings.ForwardTo}</span>`}`;

const backlog = [
  { key: "active", label: "Active", color: "in", write: amount },
  { key: "scheduled", label: "Scheduled", color: "warn", write: amount },
  { key: "deadLetter", label: "Dead letters", color: "bad", write: amount },
];

function Overview({ entry }) {
  const { counts, settings, created, updated, accessed } = entry.data.value, topic = entry.kind === "topic";
  const samples = joined(useHistory(entry.name), entry.samples), [span, control] = useSpan();
  return html`
    <dl class="tiles">
      ${topic ? html`<${Tile} name="Subscriptions" value=${amount(counts.subscriptions)} />` : html`<${Tile} name="Active" value=${amount(counts.active)} />`}
      ${!topic && html`<${Tile} name="Locked" value=${amount(counts.locked)} /><${Tile} name="Deferred" value=${amount(counts.deferred)} />`}
      ${entry.kind !== "subscription" && html`<${Tile} name="Scheduled" value=${amount(counts.scheduled)} />`}
      ${!topic && html`<${Tile} name="Dead letters" value=${amount(counts.deadLetter)} bad=${counts.deadLetter > 0} />`}
      ${counts.transfer > 0 && html`<${Tile} name="In transfer" value=${amount(counts.transfer)} />`}
      ${counts.transferDeadLetter > 0 && html`<${Tile} name="Transfer dead letters" value=${amount(counts.transferDeadLetter)} bad />`}
      ${counts.damaged > 0 && html`<${Tile} name="Damaged" value=${amount(counts.damaged)} bad />`}
      ${!topic && html`<${Tile} name="Consumers" value=${amount(counts.consumers)} />`}
      <${Tile} name="Received in total" value=${amount(counts.enqueued)} />
      <${Tile} name="Stored" value=${bytes(counts.bytes)} unit=${settings.MaxSizeInMegabytes > 0 && `of ${bytes(settings.MaxSizeInMegabytes * 2 ** 20)}`} />
    </dl>
    <div class="halves">
      <${Chart} title="Throughput" samples=${samples} series=${topic ? flowSeries.slice(0, 1) : flowSeries} span=${span} control=${control} />
      ${topic ? html`<${Subscriptions} topic=${entry} />` : html`<${Chart} title="Backlog" samples=${samples} series=${backlog} span=${span} />`}
    </div>
    <section class="card"><header><h2>At a glance</h2></header><dl class="glance">
      ${!topic && html`<${Fact} name="Lock duration" value=${duration(settings.LockDuration)} /><${Fact} name="Maximum deliveries" value=${settings.MaxDeliveryCount} />`}
      <${Fact} name="Time to live" value=${duration(settings.DefaultMessageTimeToLive)} />
      <${Fact} name="Created" value=${time(created)} /><${Fact} name="Changed" value=${time(updated)} /><${Fact} name="Used" value=${time(accessed)} />
      ${settings.UserMetadata && html`<${Fact} name="Notes" value=${settings.UserMetadata} />`}
    </dl></section>`;
}

const Fact = ({ name, value }) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`;

function Subscriptions({ topic }) {
  const [problem, setProblem] = useState();
  useEffect(() => { loadSubscriptions(topic.name).catch(setProblem); }, [changes.value]);
  const all = (topic.subscriptions.value ?? []).map(entryOf).filter(Boolean);
  usePoll(() => Promise.allSettled(all.slice(0, 50).map((e) => refresh(e.name))), 2, [all.length]);
  return html`<section class="card"><header><h2>Subscriptions</h2><div class="push"><${Action} class="small" icon="plus" run=${() => subscribe(topic.name)}>Add<//></div></header>
    ${problem ? html`<${Empty} title="That did not work">${textOf(problem)}<//>`
    : topic.subscriptions.value === null ? html`<${Loading} />`
    : all.length === 0 ? html`<${Empty} title="This topic has no subscriptions">A topic keeps no messages. Add a subscription, which gets a copy of each message that one of the subscription's rules matches.<//>`
    : html`<div class="scroll"><table><thead><tr><th>Name</th><th class="num">In</th><th class="num">Out</th><th class="num">Active</th><th class="num">Locked</th><th class="num">Consumers</th><th class="num">Dead letters</th></tr></thead>
      <tbody>${all.map((e) => { const c = e.data.value.counts; return html`<tr key=${e.name}><td class="wrap"><a href=${addressOf(e.name)}>${e.short}</a></td>
        <td class="num">${amount(Math.round(e.flow.value.in ?? 0))}</td><td class="num">${amount(Math.round(e.flow.value.out ?? 0))}</td><td class="num">${amount(c.active)}</td><td class="num">${amount(c.locked)}</td><td class="num">${amount(c.consumers)}</td>
        <td class="num">${c.deadLetter > 0 ? html`<a href=${addressOf(e.name, "dead")}>${amount(c.deadLetter)}</a>` : "0"}</td></tr>`; })}</tbody></table></div>`}
  </section>`;
}

async function subscribe(topic) {
  const made = await createEntity(topic);
  if (!made) return;
  add(made);
  changed();
  go(addressOf(made.name));
}

async function remove(kind, name) {
  const { active = 0 } = entryOf(name)?.data.value?.counts ?? {};
  const lost = kind === "topic" ? "The topic's subscriptions and their messages are deleted too." : `The messages are deleted too${active > 0 ? `, ${amount(active)} active ones` : ""} and dead letters included.`;
  if (!(await confirm(`Delete ${name}?`, `${lost} This cannot be undone.`, `Delete ${kind}`))) return;
  await bus().delete(name);
  const topic = kind === "subscription" ? name.split(/\/subscriptions\//i)[0] : "";
  go(topic ? addressOf(topic) : "#/");
  forget(name);
  changed();
  return `${name} is deleted.`;
}
