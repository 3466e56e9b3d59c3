// The frame of every page: the user, and the list of entities.
import { html, Action, Empty, Icon, Loading, rowHeight, textOf, useEffect, useRef, useSight, useState } from "./ui.js";
import { add, clear, counts as countsOf, deadLetters, entryOf, load, loadAllSubscriptions, loadSubscriptions, names, problem, refresh } from "./catalog.js";
import { atHome, changes, goHome, line, mayList, mayRun, session, signOut } from "./session.js";
import { addressOf, go, route } from "./route.js";
import { amount, rate } from "./format.js";
import { usePoll } from "./poll.js";
import { Brand } from "./signin.js";
import { fits, Search, search } from "./search.js";
import { Zone } from "./zone.js";
import { Home } from "./home.js";
import { Connections } from "./connections.js";
import { Entities } from "./entities.js";
import { hasPlugins, loadPlugins, Plugins } from "./plugins.js";
import { hasRemotes, loadRemotes, Remotes } from "./remotes.js";
import { hasSchedules, loadSchedules, Schedules } from "./schedules.js";
import { Gateway, loadStatus, status } from "./gateway.js";
import { hasTesting, Testing } from "./testing.js";
import { hasWebhooks, loadWebhooks, Webhooks } from "./webhooks.js";
import { Namespaces } from "./namespaces.js";
import { Entity } from "./entity.js";
import { createEntity } from "./settings.js";

const views = { home: Home, connections: Connections, entities: Entities, gateway: Gateway, namespaces: Namespaces, plugins: Plugins, remotes: Remotes, schedules: Schedules, testing: Testing, webhooks: Webhooks };

export function Shell() {
  const { page, name } = route.value, { namespace, policy, scope, rights, home } = session.value;
  const main = useRef();
  useEffect(() => clear, []);
  useEffect(() => {
    if (line.value === "open") Promise.allSettled([mayRun() && loadPlugins(), mayList() && loadRemotes(), mayList() && loadSchedules(), mayList() && loadStatus(), mayList() && loadWebhooks()]); // their pages say why there is none
  }, [line.value]);
  usePoll(async () => { if (mayList()) await loadStatus(); }, 5, [], 5);
  useEffect(() => {
    document.title = name ? `${name} · Crosstown` : "Crosstown";
    main.current.scrollTop = 0;
  }, [page, name]);
  return html`<div class="shell" data-page=${page}>
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); main.current.focus(); }}>Skip the list</a>
    <header class="top">
      <a class="button quiet back" href="#/" aria-label="All entities"><${Icon} name="back" /></a>
      <a class="brand" href="#/"><${Brand} /></a>
      ${mayList() && html`<${Search} />`}
      <div class="who">
        <span class="spread line" title=${line.value === "open" ? `connected to ${location.host}` : line.value}><span class=${"dot " + line.value}></span></span>
        ${mayRun() ? html`<a class="badge accent" title="Namespace" href="#/namespaces">${namespace}</a>${!atHome() && html`<${Action} class="quiet small" icon="close" label=${`Back to ${home.rights.namespace}`} run=${() => goHome()} />`}` : html`<span class="badge accent" title="Namespace">${namespace}</span>`}
        ${status.value?.virtualTime && html`<a class="badge warn" href="#/testing">${status.value.frozen ? "time is frozen" : "virtual time"}</a>`}
        <span class="muted clip" title=${policy}>${policy}</span>
        <span class="badge">${scope && `${scope}: `}${rights.includes("Manage") ? "Manage" : rights.join(", ")}</span>
        <${Zone} />
        <${Action} run=${signOut} icon="out" label="Sign out"><span class="text">Sign out</span><//>
      </div>
    </header>
    <nav class="side" aria-label="Entities">${mayList() ? html`<${List} />` : html`<${ByName} />`}</nav>
    <main class="main" id="main" tabindex="-1" ref=${main}>
      ${line.value !== "open" && html`<p class="note warn away" role="status">The gateway does not answer: connecting again …</p>`}
      ${page === "entity" ? html`<${Entity} key=${name} name=${name} />` : html`<${views[page]} />`}
    </main>
  </div>`;
}

const Pages = () => html`<div class="pages">
  <${Page} of="home" address="#/" icon="home">Overview<//>
  ${mayList() && html`<${Page} of="entities" address="#/entities" icon="queue">Entities<//>`}
  <${Page} of="connections" address="#/connections" icon="plug">Connected clients<//>
  ${mayRun() && html`<${Page} of="gateway" address="#/gateway" icon="gateway">Gateway<//>`}
  ${mayRun() && html`<${Page} of="namespaces" address="#/namespaces" icon="namespace">Namespaces<//>`}
  ${hasRemotes() && html`<${Page} of="remotes" address="#/remotes" icon="remote">Remotes<//>`}
  ${hasSchedules() && html`<${Page} of="schedules" address="#/schedules" icon="story">Schedules<//>`}
  ${hasWebhooks() && html`<${Page} of="webhooks" address="#/webhooks" icon="send">Webhooks<//>`}
  ${hasTesting() && html`<${Page} of="testing" address="#/testing" icon="story">Time and faults<//>`}
  ${hasPlugins() && html`<${Page} of="plugins" address="#/plugins" icon="plugin">Plugins<//>`}
</div>`;

const Page = ({ of, address, icon, children }) => html`
  <a class="row" href=${address} aria-current=${route.value.page === of ? "page" : undefined}><${Icon} name=${icon} /><span class="name">${children}</span></a>`;

/** Every entity: only the rows in sight are drawn and polled. */
function List() {
  const [open, setOpen] = useState(new Set());

  useEffect(() => { load(true); }, [changes.value]);

  const rows = rowsOf(names.value ?? [], search.value.trim(), open);
  const { box, first: from, end } = useSight(rows.length), visible = rows.slice(from, end);
  usePoll(() => Promise.allSettled(visible.map((name) => refresh(name))), 2, [visible.join("\n")], 0.15);
  usePoll(() => load(), 30, []);
  usePoll(() => loadAllSubscriptions(), 5, [names.value === null]);

  const twist = async (name) => {
    const next = new Set(open);
    if (!next.delete(name)) {
      next.add(name);
      await loadSubscriptions(name);
    }
    setOpen(next);
  };
  const step = (e) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[e.key], here = e.target.closest(".row");
    if (!way || !here) return;
    e.preventDefault();
    const all = [...box.ref.current.querySelectorAll(".row")], next = all[all.indexOf(here) + way];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  return html`
    <${Pages} />
    <div class="tools"><h2>Entities</h2>
      <${Action} class="primary" icon="plus" label="New queue or topic" run=${async () => {
        const made = await createEntity();
        if (made) { add(made); go(addressOf(made.name)); }
      }}>New<//>
    </div>
    <div class="list" ...${box} onKeyDown=${step}>
      ${names.value === null && (problem.value ? html`<${Empty} title="The list cannot be loaded">${textOf(problem.value)}<//>` : html`<${Loading} />`)}
      ${names.value && rows.length === 0 && html`<${Empty} title=${search.value ? "No entity has that name" : "No entities yet"}>${search.value ? "" : "Create a queue or a topic with “New”."}<//>`}
      <ul style=${{ height: rows.length * rowHeight + "px" }}>
        ${visible.map((name, i) => html`<${Row} key=${name} name=${name} top=${(from + i) * rowHeight} open=${open.has(name)} twist=${twist} at=${from + i + 1} of=${rows.length} />`)}
      </ul>
    </div>`;
}

/** The names to show: those that match, with the subscriptions of open topics. */
function rowsOf(roots, search, open) {
  const rows = [];
  for (const name of roots) {
    const subscriptions = entryOf(name)?.subscriptions.value ?? [];
    const matching = subscriptions.filter((s) => fits(s, search));
    const inside = search ? matching : open.has(name) ? subscriptions : [];
    if (fits(name, search) || inside.length > 0) rows.push(name, ...inside);
  }
  return rows;
}

function Row({ name, top, open, twist, at, of }) {
  const entry = entryOf(name);
  if (!entry) return null;
  const { settings = {} } = entry.data.value ?? {}, counts = countsOf(entry), dead = deadLetters(entry), flow = entry.flow.value;
  const current = route.value.name.toLowerCase() === name.toLowerCase();
  return html`<li class=${entry.topic && "sub"} style=${{ top: top + "px" }} aria-posinset=${at} aria-setsize=${of}>
    ${entry.kind === "topic"
      ? html`<${Action} class="quiet twist" label=${`Subscriptions of ${name}`} aria-expanded=${open} run=${() => twist(name)} icon="right" />`
      : html`<span class="leaf"></span>`}
    <a class="row" href=${addressOf(name)} aria-current=${current ? "page" : undefined} title=${name}>
      <${Icon} name=${entry.kind} /><span class="name">${entry.short}</span>
      ${settings.Status && settings.Status !== "Active" && html`<span class="badge warn">${settings.Status}</span>`}
      ${flow.in > 0 && html`<span class="flow" title="messages a second in">${rate(flow.in)}/s</span>`}
      ${dead > 0 && html`<span class="badge bad" title=${entry.kind === "topic" ? "dead letters of its subscriptions" : "dead letters"}>${amount(dead)}</span>`}
      <span class="count" title=${entry.kind === "topic" ? "subscriptions" : "active messages"}>${amount(entry.kind === "topic" ? counts.subscriptions : counts.active)}</span>
    </a></li>`;
}

/** For keys that may not list entities. */
function ByName() {
  const [name, set] = useState(session.value.scope);
  return html`<form class="tools" onSubmit=${(e) => { e.preventDefault(); go(addressOf(name.trim())); }}>
      <input aria-label="Name of an entity" placeholder="orders, events/Subscriptions/all" required value=${name} onInput=${(e) => set(e.target.value)} />
      <button class="button primary">Open</button>
    </form>
    <${Pages} />
    <${Empty} title="This key may not list entities">Listing requires Manage on the namespace. Open an entity by its name to do what the key allows there.<//>`;
}
