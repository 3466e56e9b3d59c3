// All entities in one table: of a thousand, those in sight are drawn.
import { html, Empty, Icon, Loading, signal, textOf, useSight, useState } from "./ui.js";
import { ask } from "./adminapi.js";
import { flowBetween } from "./catalog.js";
import { mayList } from "./session.js";
import { addressOf } from "./route.js";
import { amount, rate } from "./format.js";
import { usePoll } from "./poll.js";
import { fits } from "./search.js";

const columns = [
  ["name", "Name"], ["in", "In", rate, "Messages a second that came"], ["out", "Out", rate, "Messages a second that left"], ["active", "Active", amount, "Also those that are locked or deferred"],
  ["deadLetter", "Dead letters", amount, "Also those of transfers"], ["consumers", "Consumers", amount, "Receivers and sessions at this gateway"],
];
const ofTopics = new Set(["name", "in"]); // what a topic has
const wide = new Set(["in", "out", "consumers"]); // what a phone has no room for
const order = signal({ by: "name", down: false });

/** The rows of an answer, with the rates since the one before. */
function rowsOf({ at, entities }, before) {
  const old = new Map(before?.rows.map((r) => [r.name, r]));
  return entities.map((e) => {
    const row = { ...e, t: Date.parse(at), deadLetter: e.deadLetter + e.transferDeadLetter };
    return Object.assign(row, flowBetween(old.get(e.name), row));
  });
}

const value = (row, by) => (row.kind === "topic" && !ofTopics.has(by) ? undefined : row[by]);

/** Sorts by a column, what has nothing in it last. */
function sorted(rows, { by, down }) {
  const byName = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true }), way = down ? -1 : 1;
  return rows.sort((a, b) => {
    const x = value(a, by), y = value(b, by);
    if (by === "name") return way * byName(a, b);
    return (x === undefined) - (y === undefined) || way * ((x ?? 0) - (y ?? 0)) || byName(a, b);
  });
}

export function Entities() {
  const [state, set] = useState(), [problem, setProblem] = useState(), [text, setText] = useState("");
  usePoll(async () => {
    if (!mayList()) return;
    try {
      const answer = await ask("entities");
      set((before) => ({ rows: rowsOf(answer, before) }));
      setProblem();
    } catch (e) {
      setProblem(e);
      throw e;
    }
  }, 3, []);
  const rows = sorted((state?.rows ?? []).filter((r) => fits(r.name, text)), order.value);
  return html`<div class="page"><h1>Entities</h1>
    ${problem && html`<p class="problem" role="alert">${textOf(problem)}</p>`}
    <section class="card"><header><h2>Queues, topics and subscriptions</h2><span class="muted" role="status">${state && `${amount(rows.length)} of ${amount(state.rows.length)}`}</span>
        <div class="push"><input type="search" aria-label="Show names that contain" placeholder="name contains" value=${text} onInput=${(e) => setText(e.target.value)} /></div></header>
      ${!mayList() ? html`<${Empty} title="Not with this key">The list of entities requires Manage on the namespace.<//>`
      : !state ? !problem && html`<${Loading} />`
      : rows.length === 0 ? html`<${Empty} title=${text ? "No entity has that name" : "No entities yet"}>${!text && "Create a queue or a topic with “New”."}<//>`
      : html`<${Table} rows=${rows} />`}
    </section></div>`;
}

function Table({ rows }) {
  const { by, down } = order.value, sight = useSight(rows.length);
  const turn = (key) => { order.value = { by: key, down: key === by ? !down : key !== "name" }; };
  return html`<div class="scroll rows tall" ...${sight.box}><table aria-label="Entities" aria-rowcount=${rows.length + 1}>
    <thead><tr>${columns.map(([key, title, , hint], i) => html`<th class=${i === 0 ? "" : `num figure ${wide.has(key) && "extra"}`} aria-sort=${key !== by ? undefined : down ? "descending" : "ascending"}>
      <button class="button quiet sort" title=${hint} onClick=${() => turn(key)}>${title + (key !== by ? "" : down ? " ↓" : " ↑")}</button></th>`)}</tr></thead>
    <tbody>${sight.before}${rows.slice(sight.first, sight.end).map((r, i) => html`<tr key=${r.name} class="row-height" aria-rowindex=${sight.first + i + 2}>
      <td><div class="clip"><${Icon} name=${r.kind} /> <a href=${addressOf(r.name)} title=${r.name}>${r.name}</a>${r.status !== "Active" && html` <span class="badge warn">${r.status}</span>`}</div></td>
      ${columns.slice(1).map(([key, , write]) => { const n = value(r, key); return html`<td class=${`num ${wide.has(key) && "extra"}`}>${key === "deadLetter" && n > 0 ? html`<a class="badge bad" href=${addressOf(r.name, "dead")}>${write(n)}</a>` : write(n)}</td>`; })}
    </tr>`)}${sight.after}</tbody></table></div>`;
}
