// What the gateway has kept of the last day, in front of what this page has seen itself.
import { html, useState } from "./ui.js";
import { ask, pathOf } from "./adminapi.js";
import { kept } from "./storage.js";
import { mayList } from "./session.js";
import { usePoll } from "./poll.js";

const choice = kept("localStorage", "crosstown.span");

/** Spans that charts can show, in seconds, with their texts. */
const spans = [["900", "15 min"], ["3600", "1 hour"], ["21600", "6 hours"], ["86400", "24 hours"]];

const soon = 15; // seconds between two samples of the gateway, at most, when something happened

/**
 * Points of a chart from an answer to /$crosstown/history. Nothing has changed between samples that are
 * further apart. All are marked as kept: there are no gaps between them.
 */
export function pointsOf({ at, in: came = [], out = [], active = [], scheduled = [], deadLetter = [] }) {
  const points = [];
  for (let i = 0; i < at.length; i++) {
    const before = i - 1, seconds = at[i] - at[before], holds = { kept: true, active: active[i], scheduled: scheduled[i], deadLetter: deadLetter[i] };
    if (i === 0) {
      points.push({ t: at[i] * 1000, ...holds });
      continue;
    }
    const flow = { in: (came[i] - came[before]) / seconds, out: (out[i] - out[before]) / seconds };
    if (seconds > soon && flow.in === 0 && flow.out === 0) points.push({ ...points.at(-1), t: (at[before] + 10) * 1000, ...flow });
    points.push({ t: at[i] * 1000, ...holds, ...flow });
  }
  return points;
}

/** History, then what the page has seen since. */
export const joined = (history, live) => [...history.filter((p) => !live.length || p.t < live[0].t), ...live];

/** Points of the gateway's history of an entity, or of the namespace; none before it has said, or if it does not. */
export function useHistory(entity = "") {
  const [points, set] = useState([]);
  usePoll(async () => {
    if (!mayList()) return;
    set(pointsOf(await ask(`history/${pathOf(entity)}`)));
  }, 60, [entity]);
  return points;
}

/** How many seconds charts show, and a control that sets it. */
export function useSpan() {
  const [span, set] = useState(spans.some(([s]) => s === choice.get()) ? choice.get() : "3600");
  const choose = (value) => {
    choice.set(value);
    set(value);
  };
  return [Number(span), html`<select class="span" aria-label="Time that charts show" value=${span} onChange=${(e) => choose(e.target.value)}>
    ${spans.map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select>`];
}
