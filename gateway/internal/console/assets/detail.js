// A message in full.
import { html, Copy, Icon, plainly, useEffect, useRef } from "./ui.js";
import { duration, time } from "./format.js";
import { plain, toText, typeOf } from "./values.js";
import { zoneName } from "./zone.js";
import { Body } from "./body.js";
import { StoryLink } from "./story.js";

const instants = new Set(["EnqueuedTimeUtc", "ExpiresAtUtc", "LockedUntilUtc", "ScheduledEnqueueTimeUtc"]);

/** Where there is no room beside the list, a message lies over it: as in the style sheet. */
const sheet = matchMedia("(max-width: 1100px)");

function written(name, v) {
  if (instants.has(name)) return html`<time datetime=${v} title=${v}>${time(v)}</time> <small>${zoneName()}</small>`;
  return name === "TimeToLive" ? duration(`PT${v}S`) : toText(v);
}

export function Detail({ message, entity, close, children }) {
  const { DeadLetterReason: reason, DeadLetterErrorDescription: why } = message.properties;
  const properties = Object.entries(message.properties), ref = useRef();
  useEffect(() => {
    const before = document.activeElement;
    if (!close || !sheet.matches) return;
    ref.current.focus();
    return () => (document.querySelector(`button.link[aria-label="Message ${message.sequenceNumber}"]`) ?? before)?.focus(); // to where it was opened
  }, []);
  const escape = (e) => {
    if (e.key !== "Escape" || !close) return;
    e.stopPropagation();
    close();
  };
  return html`<section class="card detail" ref=${ref} tabindex="-1" aria-label=${`Message ${message.sequenceNumber}`} onKeyDown=${escape}>
    <header><h2>Message ${message.sequenceNumber}</h2>
      ${close && html`<button class="button quiet push" aria-label="Close message" onClick=${close}><${Icon} name="close" /></button>`}</header>
    <div class="in">
      ${(children || entity) && html`<div class="actions">${children}${entity && html`<${StoryLink} entity=${entity} message=${message} />`}</div>`}
      ${reason !== undefined && html`<p class="note bad"><strong>${reason}</strong>${why !== undefined && html`<br />${plainly(toText(why))}`}</p>`}
      <${Body} message=${message} />
      <section><h3 class="spread">User properties ${properties.length > 0 && html`<${Copy} class="small" what="the user properties" text=${JSON.stringify(plain(message.properties), null, 2)} />`}</h3>
        ${properties.length === 0 ? html`<p class="muted">The message has no user properties.</p>` : html`<table class="facts"><tbody>${properties.map(([name, v]) => html`<tr key=${name}>
          <th>${name}</th><td><pre class="value">${toText(v)}</pre></td><td class="tight"><small>${typeOf(v)}</small></td></tr>`)}</tbody></table>`}
      </section>
      <section><h3>Broker properties</h3>
        <table class="facts fixed"><tbody>${Object.entries(message.broker).filter(([name]) => name !== "LockToken").map(([name, v]) => html`<tr key=${name}><th>${name}</th><td>${written(name, v)}</td></tr>`)}</tbody></table>
      </section>
    </div>
  </section>`;
}
