// The building blocks of every view.
import { h } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import htm from "htm";

export { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
export { batch, computed, effect, signal } from "@preact/signals";
export const html = htm.bind(h);

const paths = {
  queue: "M4 6h16M4 12h16M4 18h10",
  topic: "M4 12h6M10 12l8-6M10 12l8 6M10 12h8",
  subscription: "M5 5v8a3 3 0 0 0 3 3h10M15 13l3 3-3 3",
  plus: "M12 5v14M5 12h14",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14M16 16l5 5",
  refresh: "M20 12a8 8 0 1 1-2.5-5.8M20 3v5h-5",
  send: "M4 12l16-8-6 16-3-6z",
  receive: "M12 4v11M7 10l5 5 5-5M5 20h14",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  close: "M6 6l12 12M18 6L6 18",
  right: "M9 6l6 6-6 6",
  back: "M15 6l-6 6 6 6",
  home: "M4 11l8-7 8 7v9H4zM10 20v-6h4v6",
  plug: "M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4",
  gateway: "M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01M12 8h4M12 16h4",
  plugin: "M4 9h4.2a2.3 2.3 0 1 1 3.6 0H16v4.2a2.3 2.3 0 1 1 0 3.6V21H4z",
  namespace: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  remote: "M4 7h12M12 3l4 4-4 4M20 17H8M12 13l-4 4 4 4",
  story: "M12 7v5l3 2M4 12a8 8 0 1 0 2.5-5.8M4 3v5h5",
  empty: "M5 8h14l-1.5 12h-11zM9 8V4h6v4",
  copy: "M8 8h11v12H8zM5 16V4h11",
  check: "M5 13l4 4L19 7",
  out: "M14 4h5v16h-5M4 12h10M10 8l4 4-4 4",
};

/** A drawing beside a text, or inside something that has a name. */
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${paths[name]} /></svg>`;

/**
 * A button that does something asynchronous: it does one thing at a time, and
 * tells what went wrong. `run` may return a text to show when it is done.
 */
export function Action({ run, icon, children, class: kind = "", label, disabled, onError, type = "button", ...rest }) {
  const [busy, setBusy] = useState(false);
  const press = async () => {
    if (busy) return;
    setBusy(true);
    try {
      const done = await run();
      if (typeof done === "string") toast(done);
    } catch (e) {
      (onError ?? complain)(e);
    } finally {
      setBusy(false);
    }
  };
  return html`<button type=${type} class=${"button " + kind} disabled=${disabled} aria-busy=${busy} aria-label=${label} title=${label} onClick=${press} ...${rest}>
    ${icon && html`<${Icon} name=${icon} />`}${children}
  </button>`;
}

/** A form whose button runs it; what is wrong is said beside the button. */
export function Form({ submit, action, cancel, danger, children }) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const run = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      await submit();
    } catch (e) {
      setProblem(textOf(e));
    } finally {
      setBusy(false);
    }
  };
  return html`<form class="form" onSubmit=${run}>
    ${children}
    <p class="problem" role="alert">${problem}</p>
    <div class="actions">
      <button class=${"button " + (danger ? "danger solid" : "primary")} disabled=${busy} aria-busy=${busy}>${action}</button>
      ${cancel && html`<button type="button" class="button" onClick=${cancel}>Cancel</button>`}
    </div>
  </form>`;
}

/** A labelled control. `children` is a function that gets the control's id and the id of what describes it. */
export function Field({ label, hint, children, class: kind = "" }) {
  const id = useId();
  return html`<div class=${"field " + kind}>
    <label for=${id}>${label}</label>
    ${children({ id, "aria-describedby": hint ? id + "h" : undefined })}
    ${hint && html`<small id=${id + "h"}>${hint}</small>`}
  </div>`;
}

/** A labelled line of text, number or anything else that an input can be, bound to a value. */
export const Input = ({ label, hint, value, set, class: kind, ...rest }) => html`<${Field} label=${label} hint=${hint} class=${kind}>
  ${(a) => html`<input ...${a} value=${value} onInput=${(e) => set(e.target.value)} autocomplete="off" spellcheck=${false} ...${rest} />`}
<//>`;

/** A labelled choice; options are texts or [value, text]. */
export const Select = ({ label, hint, value, set, options, class: kind, ...rest }) => html`<${Field} label=${label} hint=${hint} class=${kind}>
  ${(a) => html`<select ...${a} value=${value} onChange=${(e) => set(e.target.value)} ...${rest}>
    ${options.map((o) => (Array.isArray(o) ? html`<option value=${o[0]}>${o[1]}</option>` : html`<option value=${o}>${o}</option>`))}
  </select>`}
<//>`;

export const Check = ({ label, hint, value, set, disabled }) => {
  const id = useId();
  return html`<div class="check">
    <input id=${id} type="checkbox" checked=${value} disabled=${disabled} aria-describedby=${hint ? id + "h" : undefined} onChange=${(e) => set(e.target.checked)} />
    <label for=${id}>${label}</label>${hint && html`<small id=${id + "h"}>${hint}</small>`}
  </div>`;
};

/** What is shown where there is nothing, or nothing yet. */
export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2><div>${children}</div></div>`;

export const Loading = ({ what = "Loading" }) => html`<p class="loading" role="status">${what} …</p>`;

/** A text without the cloud's address of help, and what follows it, which is for programs. */
export const plainly = (text) => text.replace(/ *To know more visit https:\/\/aka\.ms\/.*/s, "");

/** A text for what was thrown. */
export const textOf = (e) => plainly(e?.message || String(e));

/** Puts a text into the clipboard. */
export const Copy = ({ text, what, ...rest }) => html`<${Action} icon="copy" label=${`Copy ${what}`} run=${async () => { await navigator.clipboard.writeText(text); return "It is in the clipboard."; }} ...${rest}>Copy<//>`;

export const rowHeight = 34; // of lists of which only the rows in sight are drawn

/** Of `count` rows in a box that scrolls: which are drawn, the properties of the box, and what fills the rest of a table. */
export function useSight(count) {
  const [sight, setSight] = useState({ top: 0, height: 600 }), ref = useRef();
  const measure = ({ target }) => setSight({ top: target.scrollTop, height: target.clientHeight });
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => measure(entry));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  const first = Math.max(Math.min(Math.floor(sight.top / rowHeight) - 10, count - 1), 0);
  const end = Math.min(first + Math.ceil(sight.height / rowHeight) + 20, count);
  const gap = (rows) => rows > 0 && html`<tr aria-hidden="true"><td style=${{ height: `${rows * rowHeight}px`, padding: 0 }}></td></tr>`;
  return { box: { ref, onScroll: measure }, first, end, before: gap(first), after: gap(count - end) };
}

/** Loads something once, and again when `keys` change or again() is called. */
export function useLoaded(load, keys) {
  const [state, setState] = useState({ loading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    let current = true;
    setState((s) => ({ ...s, loading: true }));
    load().then(
      (value) => current && setState({ value, loading: false }),
      (error) => current && setState({ error, loading: false }),
    );
    return () => { current = false; };
  }, [...keys, round]);
  return { ...state, again: () => setRound((n) => n + 1) };
}

// ------------------------------------------------------------ notices

const notices = signal([]);
let count = 0;

/** Says something for a few seconds; errors stay until they are dismissed. */
export function toast(text, bad = false) {
  const id = ++count;
  notices.value = [...notices.value.slice(-3), { id, text, bad }];
  if (!bad) setTimeout(() => dismiss(id), 5000);
}

/** Says what went wrong. */
export const complain = (e) => toast(textOf(e), true);

const dismiss = (id) => { notices.value = notices.value.filter((n) => n.id !== id); };

export const Notices = () => html`<div class="notices" role="status">
  ${notices.value.map((n) => html`<p key=${n.id} class=${n.bad ? "bad" : ""}>${n.text}
    <button class="button quiet" aria-label="Dismiss" onClick=${() => dismiss(n.id)}><${Icon} name="close" /></button></p>`)}
</div>`;

// ------------------------------------------------------------ dialogs

const dialogs = signal([]);

/**
 * Opens a dialog; `content` gets a function that closes it with a result.
 * Resolves to that result, undefined if it was dismissed.
 */
export function open(title, content, wide = false) {
  return new Promise((resolve) => {
    const dialog = { id: ++count, title, content, wide };
    dialog.close = (result) => {
      dialog.element?.close(); // gives the focus back, which removing it would not
      dialogs.value = dialogs.value.filter((d) => d !== dialog);
      resolve(result);
    };
    dialogs.value = [...dialogs.value, dialog];
  });
}

/** Dismisses whatever is open. */
export const closeDialogs = () => dialogs.value.forEach((d) => d.close());

/** Asks before something that cannot be undone; resolves to true if it is to be done. */
export const confirm = (title, text, action) => open(title, (close) => html`
  <${Form} action=${action} danger submit=${async () => close(true)} cancel=${() => close()}><p class="prose">${text}</p><//>`);

export const Dialogs = () => dialogs.value.map((d) => html`<${Dialog} key=${d.id} of=${d} />`);

function Dialog({ of }) {
  const { id, title, content, wide, close } = of, ref = useRef();
  useEffect(() => {
    of.element = ref.current;
    of.element.showModal();
  }, []);
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-labelledby=${"dialog" + id} onCancel=${(e) => { e.preventDefault(); close(); }}>
    <header><h2 id=${"dialog" + id}>${title}</h2>
      <button class="button quiet" aria-label="Close" onClick=${() => close()}><${Icon} name="close" /></button></header>
    ${content(close)}
  </dialog>`;
}
