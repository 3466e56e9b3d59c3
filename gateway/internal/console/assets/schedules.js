// The messages that the gateways send at certain times.
import { html, Empty, Loading, plainly, textOf, useState } from "./ui.js";
import { ask } from "./adminapi.js";
import { mayList, ofSession } from "./session.js";
import { addressOf } from "./route.js";
import { time } from "./format.js";
import { usePoll } from "./poll.js";

/** What the gateway last said of its schedules, at most a thousand; null until loadSchedules. */
export const [schedules, loadSchedules] = ofSession(async () => (await ask("schedules?top=1000")).schedules);

/** Whether there are schedules that the user may see. */
export const hasSchedules = () => mayList() && schedules.value?.length > 0;

export function Schedules() {
  const [problem, setProblem] = useState(), allowed = mayList(), all = schedules.value;
  usePoll(async () => {
    if (!allowed) return;
    try {
      await loadSchedules();
      setProblem();
    } catch (e) {
      setProblem(e);
      throw e;
    }
  }, 2, []);
  return html`<div class="page"><h1>Schedules</h1>
    <p class="muted">The gateways send a message at each tick (time of the schedule). To create and change schedules, use the command crosstown schedule, or “schedules” in the gateway's configuration.</p>
    ${!allowed ? html`<section class="card"><${Empty} title="Not with this key">Schedules require Manage on the whole namespace.<//></section>`
    : problem ? html`<section class="card"><${Empty} title="That did not work">${textOf(problem)}<//></section>`
    : !all ? html`<${Loading} />`
    : all.length === 0 ? html`<section class="card"><${Empty} title="There are no schedules">A schedule sends a message to a queue or topic at each tick of a cron expression.<//></section>`
    : html`<section class="card"><div class="scroll"><table aria-label="Schedules">
      <thead><tr><th>Name</th><th>Cron</th><th>Zone</th><th>To</th><th>Last tick</th><th>Next tick</th><th>Problem</th></tr></thead>
      <tbody>${all.map((s) => html`<tr key=${s.name}><td class="wrap">${s.name}</td><td class="mono">${s.cron}</td><td>${s.zone}</td><td class="wrap"><a href=${addressOf(s.entity)}>${s.entity}</a></td>
        <td>${s.lastTick ? time(s.lastTick) : "–"}</td><td>${s.next ? time(s.next) : "–"}</td><td class="wrap">${s.error ? html`<span class="problem">${plainly(s.error)}</span>` : "–"}</td></tr>`)}</tbody></table></div></section>`}
  </div>`;
}
