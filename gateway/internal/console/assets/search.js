// The search for queues, topics and subscriptions, at the top of every page.
import { html, Icon, signal, useEffect, useId, useRef, useState } from "./ui.js";
import { counts, entryOf, everything, loadMissingSubscriptions } from "./catalog.js";
import { addressOf, go } from "./route.js";
import { amount } from "./format.js";

/** What is searched for; the list of entities shows what has it, too. */
export const search = signal("");

const most = 50; // hits that are shown

const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

/** Whether a name contains all words of a text. */
export const fits = (name, text) => wordsOf(text).every((w) => name.toLowerCase().includes(w));

/** How well a name fits, less is better. */
function rank(name, text) {
  if (name === text) return 0;
  if (name.startsWith(text)) return 1;
  return name.split("/").some((part) => part.startsWith(text)) ? 2 : 3;
}

/** The entities whose names contain all words, the best first. */
function hitsOf(text) {
  const [first] = wordsOf(text);
  if (!first) return [];
  return everything().filter((e) => fits(e.name, text)).map((e) => ({ e, name: e.name.toLowerCase(), rank: rank(e.name.toLowerCase(), first) }))
    .sort((a, b) => a.rank - b.rank || a.name.length - b.name.length || a.name.localeCompare(b.name, "en", { numeric: true })).map(({ e }) => e);
}

export function Search() {
  const [open, setOpen] = useState(false), [at, setAt] = useState(0), [looking, setLooking] = useState(false);
  const field = useRef(), id = useId();
  useEffect(() => {
    const seek = (e) => {
      if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select, dialog")) return;
      e.preventDefault();
      field.current.focus();
      field.current.select();
    };
    addEventListener("keydown", seek);
    return () => {
      removeEventListener("keydown", seek);
      search.value = "";
    };
  }, []);
  const hits = open ? hitsOf(search.value) : [], shown = hits.slice(0, most), chosen = Math.min(at, shown.length - 1);
  useEffect(() => document.getElementById(`${id}-${chosen}`)?.scrollIntoView({ block: "nearest" }), [chosen]);

  const type = (text) => {
    search.value = text;
    setAt(0);
    setOpen(text.trim() !== "");
    if (!text.trim() || looking) return;
    setLooking(true);
    loadMissingSubscriptions().finally(() => setLooking(false));
  };
  const visit = (name) => {
    go(addressOf(entryOf(name).name));
    setOpen(false);
    search.value = "";
    field.current.blur();
  };
  const press = (e) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (way && shown.length > 0) setAt((chosen + way + shown.length) % shown.length);
    else if (e.key === "Enter" && shown[chosen]) visit(shown[chosen].name);
    else if (e.key === "Escape" && open) setOpen(false);
    else if (e.key === "Escape") search.value = "";
    else return;
    e.preventDefault();
  };
  return html`<div class="search">
    <${Icon} name="search" />
    <input ref=${field} type="search" role="combobox" aria-label="Search queues, topics and subscriptions" placeholder="Search ( / )" autocomplete="off" spellcheck=${false}
      aria-expanded=${open} aria-controls=${id} aria-activedescendant=${shown.length > 0 ? `${id}-${chosen}` : undefined}
      value=${search.value} onInput=${(e) => type(e.target.value)} onKeyDown=${press} onFocus=${(e) => type(e.target.value)} onBlur=${() => setOpen(false)} />
    <div class="hits" hidden=${!open}>
      <ul id=${id} role="listbox" aria-label="Found">${shown.map((e, i) => html`<li key=${e.name} id=${`${id}-${i}`} role="option" aria-selected=${i === chosen}
        onMouseDown=${(event) => event.preventDefault()} onClick=${() => visit(e.name)}><${Icon} name=${e.kind} /><span class="name">${e.name}</span>
        <small>${e.kind}${e.kind !== "topic" && counts(e).active > 0 ? `, ${amount(counts(e).active)} active` : ""}</small></li>`)}</ul>
      <p class="muted" role="status">${looking ? "Looking at subscriptions …" : hits.length === 0 ? "No entity has that name." : hits.length > most ? `${amount(most)} of ${amount(hits.length)} are shown.` : ""}</p>
    </div></div>`;
}
