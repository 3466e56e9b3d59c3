// The clock of a namespace with virtual time.
import { html, Action, Form, Input, textOf, toast, useEffect, useState } from "./ui.js";
import { changed } from "./session.js";
import { ask } from "./adminapi.js";
import { loadStatus, status } from "./gateway.js";
import { parseDuration, time } from "./format.js";
import { instantOf, localTime, zone } from "./zone.js";
import { usePoll } from "./poll.js";

/** A duration that may be negative, as the gateway takes it. */
export function shift(text) {
  const [, minus, rest] = /^\s*([-−]?)(.*)$/.exec(text), iso = parseDuration(rest);
  if (!minus) return iso;
  const seconds = /^PT([\d.]+)S$/.exec(iso);
  if (!seconds) throw new Error("Write a step back like −30 s or −1h.");
  return `-${seconds[1]}s`;
}

/** `path` is that of the clock below /$crosstown. */
export function Clock({ path }) {
  const [clock, setClock] = useState(), [problem, setProblem] = useState(""), [, tick] = useState(0);
  const [by, setBy] = useState("5 min"), [to, setTo] = useState("");
  const take = (value) => {
    setClock({ ...value, asked: Date.now() });
    setTo((before) => before || localTime(new Date(value.now)));
  };
  usePoll(async () => {
    try {
      take(await ask(path));
      setProblem("");
    } catch (e) {
      setProblem(textOf(e));
      throw e;
    }
  }, 3, [path]);
  useEffect(() => {
    if (!clock || clock.frozen) return;
    const timer = setInterval(() => tick((n) => n + 1), 100);
    return () => clearInterval(timer);
  }, [clock]);
  const put = async (request) => {
    take(await ask(path, { method: "PUT", body: JSON.stringify(request) }));
    changed();
    if (status.value) await loadStatus();
  };
  const advance = async () => {
    await put({ advance: shift(by) });
    toast("The time is moved, and the gateway has done everything that became due.");
  };
  const set = async () => {
    await put({ set: instantOf(to) });
    toast("The time is set, and the gateway has done everything that became due.");
  };
  const shown = clock && new Date(Date.parse(clock.now) + (clock.frozen ? 0 : Date.now() - clock.asked));
  return html`<section class="card" aria-labelledby="clock"><header><h2 id="clock">Clock</h2>
      ${clock && html`<span class=${`badge ${clock.frozen ? "warn" : "good"}`}>${clock.frozen ? "frozen" : "running"}</span><span class="muted">${clock.ahead} ahead of the store's time</span>
      <div class="push">${clock.frozen ? html`<${Action} class="primary" run=${() => put({ resume: true })}>Resume<//>` : html`<${Action} class="primary" run=${() => put({ freeze: true })}>Freeze<//>`}</div>`}</header>
    ${problem && html`<p class="in problem" role="alert">${problem}</p>`}
    ${clock && html`<p class="in clock"><time datetime=${shown.toISOString()}>${time(shown, true)}</time> <small>${zone.value}</small></p>
    <div class="in fields">
      <${Form} action="Advance" submit=${advance}><${Input} label="Advance by" required value=${by} set=${setBy} hint="30 s, 5 min, 14 d; −1h sets it back" /><//>
      <${Form} action="Set" submit=${set}><${Input} label="Set to" type="datetime-local" step="0.001" required min="2000-01-01T00:00" max="2200-01-01T00:00" value=${to} set=${setTo} hint=${zone.value} /><//>
    </div>`}
    <p class="in muted">Locks, times to live, schedules, retry delays, duplicate detection and deletion of idle entities follow this clock.</p>
  </section>`;
}
