// What a namespace for tests has: a clock that can be moved, and faults on demand.
import { html, Empty } from "./ui.js";
import { status } from "./gateway.js";
import { Clock } from "./clock.js";
import { Faults } from "./faults.js";

export const hasTesting = () => status.value?.virtualTime || status.value?.allowFaults;

export function Testing() {
  const { virtualTime, allowFaults, namespace } = status.value ?? {};
  return html`<div class="page"><h1>Time and faults</h1>
    ${!hasTesting() && html`<section class="card"><${Empty} title="Not in this namespace">The namespace was created without virtual time, and does not allow faults.<//></section>`}
    ${hasTesting() && html`<p class="muted">Of the namespace ${namespace}, for tests.</p>`}
    ${virtualTime && html`<${Clock} path="clock" />`}
    ${allowFaults && html`<${Faults} path="faults" />`}</div>`;
}
