// What happened to a message, where the gateway remembers that.
import { html, Action, Empty, Icon, Loading, textOf, useLoaded, useState } from "./ui.js";
import { ask, pathOf } from "./adminapi.js";
import { atHome, may, session } from "./session.js";
import { addressOf, addressOfStory, go, route } from "./route.js";
import { time } from "./format.js";
import { idOf } from "./values.js";

/** The link to the events of a message in an entity, for users who may see them. */
export function StoryLink({ entity, message }) {
  const { MessageId: id } = message.broker, main = entity.replace(/\/\$.*$/, "");
  if (!may("Manage") || (id === undefined && main !== entity)) return null; // numbers of sub-queues are their own
  return html`<a class="button" href=${addressOfStory(main, id === undefined ? undefined : idOf(id), message.sequenceNumber)}><${Icon} name="story" />What happened to it</a>`;
}

/** The stories of an entity's messages: those of an id, or of a sequence number. */
export function Story({ entity, topic }) {
  const { id, number } = route.value;
  return html`<section class="card" aria-labelledby="story"><header><h2 id="story">What happened to a message</h2>
      <${Ask} key=${id} entity=${entity} id=${id} /></header>
    ${id || number ? html`<${Told} key=${`${entity} ${id} ${number}`} ...${{ entity, topic, id, number }} />`
    : html`<${Empty} title="Which one?">Write a message id, or open a message and press “What happened to it”.<//>`}
  </section>`;
}

function Ask({ entity, id }) {
  const [text, set] = useState(id);
  return html`<form class="spread push" onSubmit=${(e) => { e.preventDefault(); go(addressOfStory(entity, text.trim())); }}>
    <input aria-label="Message id" placeholder="message id" style=${{ width: "16rem" }} required value=${text} onInput=${(e) => set(e.target.value)} spellcheck=${false} />
    <button class="button primary">Tell</button></form>`;
}

function Told({ entity, topic, id, number }) {
  const query = id ? `message-id=${encodeURIComponent(id)}` : `sequence-number=${encodeURIComponent(number)}`;
  const { value, error, again } = useLoaded(() => ask(`explain/${pathOf(entity)}?${query}`), [entity, query]);
  if (error) return error.status === 404 ? html`<${Forgetful} entity=${entity} topic=${topic} why=${error} />` : html`<${Empty} title="That did not work">${textOf(error)}<//>`;
  if (!value) return html`<${Loading} />`;
  const { events, unmatched = [] } = value;
  const known = id || events.find((e) => e.messageId)?.messageId;
  return html`<div class="in">
    <p class="spread"><span>${id ? html`Message id <strong class="mono">${id}</strong>` : html`Number <strong>${number}</strong>${known && html`, message id <strong class="mono">${known}</strong>`}`} in ${entity}</span>
      <${Action} class="small" icon="refresh" run=${async () => again()}>Look again<//></p>
    ${events.length === 0 ? html`<${Empty} title="It has no events">The message was never in this entity, or its events are no longer kept.${topic && html` The topic may have events of it: <${Elsewhere} name=${topic} id=${known} />.`}<//>`
    : html`<ol class="story">${events.map((e) => html`<${Event} of=${e} id=${known} topic=${topic} />`)}</ol>`}
    ${unmatched.length > 0 && html`<h3>Did not match</h3><dl aria-label="Did not match">${unmatched.map((u) => html`<dt><a href=${addressOf(u.subscription)}>${u.subscription}</a></dt>${u.why.map((why) => html`<dd class="note">${why}</dd>`)}`)}</dl>`}
  </div>`;
}

const Forgetful = ({ entity, topic, why }) => html`<${Empty} title="This entity keeps no history">
  <p>${textOf(why)}</p>
  ${atHome() ? html`<pre class="sample">${`explain:\n  - entity: ${topic ?? entity}\n    keep: 24h\n    max: 100000`}</pre>
    <p>If a topic keeps a history, its subscriptions do too. The history begins when the gateway starts with that setting.</p>`
  : html`<p>To keep a history, an operator of the gateway can set “explain” of the namespace ${session.value.namespace} in the gateway's configuration.</p>`}<//>`;

/** Another entity, with a link to what happened to the message there. One at a remote is another gateway's. */
function Elsewhere({ name, id }) {
  if (name.includes(":")) return html`<a href="#/remotes">${name}</a>`;
  return html`<a href=${id ? addressOfStory(name, id) : addressOf(name)}>${name}</a>`;
}

const marks = {
  completed: "good", "dead-lettered": "bad", diverted: "bad", expired: "bad", dropped: "bad", unmatched: "bad", cancelled: "bad",
  abandoned: "warn", postponed: "warn", "lock-expired": "warn", duplicate: "warn", parked: "warn",
  forwarded: "accent", routed: "accent", matched: "accent",
};

const places = { $DeadLetterQueue: "dead-letter queue", $Transfer: "transfer queue", "$Transfer/$DeadLetterQueue": "transfer dead-letter queue" };

/** The word in front of an event's client. */
const parties = { accepted: "from", scheduled: "from", duplicate: "from", delivered: "to" };

function Event({ of, id, topic }) {
  const { event, time: at, subQueue, policy, peer, reason, gateway } = of;
  return html`<li class=${marks[event]}>
    <time datetime=${at} title=${at}>${time(at)}</time>
    <div><span>${words(of, id, topic)}${subQueue && ` in the ${places[subQueue] ?? subQueue}`}</span>
      ${reason && html`<p class=${`note ${marks[event] === "bad" ? "bad" : ""}`}>${reason}</p>`}
      ${(policy || peer || gateway) && html`<small title=${peer}>${[
        (policy || peer) && `${parties[event] ?? "by"} ${[policy, short(peer) || "the gateway itself"].filter(Boolean).join(" at ")}`,
        gateway && `through ${gateway}`].filter(Boolean).join(", ")}</small>`}
    </div></li>`;
}

/** A client by its protocol, its address and the first word of what it calls itself. */
const short = (peer = "") => peer.split(" ").slice(0, 3).join(" ");

/** What happened, without client and place. */
function words({ event, sequenceNumber: number, otherSequenceNumber: other, failedDeliveries: failed = 0, until, entity, rule, plugin }, id, topic) {
  const there = entity && html`<${Elsewhere} name=${entity} id=${id} />`;
  switch (event) {
    case "accepted":
      if (entity) return html`Accepted as ${number}, forwarded from ${there}`;
      return topic ? html`Accepted as ${number}, a copy of what was sent to <${Elsewhere} name=${topic} id=${id} />` : `Accepted as ${number}`;
    case "scheduled": return `Accepted as ${number}, scheduled for ${time(until)}`;
    case "duplicate": return "Dropped as a duplicate: the entity already got a message with this id";
    case "activated": return `Became active as ${other}`;
    case "published": return `${number} was published`;
    case "matched": return rule ? html`Matched ${rule} of ${there}` : html`Went to ${there}`;
    case "unmatched": return "Matched by no rule of any subscription";
    case "delivered": return `${number} was delivered${failed > 0 ? ` again, after ${failed} ${failed === 1 ? "failure" : "failures"}` : ""}`;
    case "abandoned": return `${number} was abandoned, failure ${failed}`;
    case "postponed": return `${number} was delayed; it is delivered again at ${time(until)}`;
    case "returned": return `${number} became available again, after failure ${failed}`;
    case "lock-expired": return `The lock of ${number} expired, failure ${failed}`;
    case "dead-lettered": return `${number} was dead-lettered${other ? ` as ${other}` : ""}`;
    case "expired": return `${number} expired, and was dropped`;
    case "forwarded": return html`${number} was forwarded to ${there}`;
    case "routed": return html`Routed to ${there} by the plugin ${plugin}`;
    case "dropped": return `Dropped by the plugin ${plugin}`;
    case "diverted": return `Dead-lettered on its way in by the plugin ${plugin}`;
    case "parked": return "Parked until the plugins of the pipeline are available again";
    default: return `${number} was ${event}`;
  }
}
