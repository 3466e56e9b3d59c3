// The zone in which all times of the page are written and read: UTC, or that of this machine.
import { html, signal } from "./ui.js";
import { kept } from "./storage.js";

const choice = kept("localStorage", "crosstown.zone"), machine = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The zone, as Intl takes it. */
export const zone = signal(choice.get() === "UTC" ? "UTC" : machine);

function choose(name) {
  zone.value = name;
  choice.set(name === "UTC" ? name : "local");
}

/** The zone beside a time whose name may say another one. */
export const zoneName = () => (zone.value === "UTC" ? "UTC" : `local, ${zone.value}`);

/** Shows the zone, and changes it. */
export const Zone = () => html`<select class="zone" aria-label="Time zone" title="Time zone of all times on this page" value=${zone.value} onChange=${(e) => choose(e.target.value)}>
  <option value="UTC">UTC</option>${machine !== "UTC" && html`<option value=${machine}>${machine} (local)</option>`}</select>`;

const formats = new Map();

/** The format of some parts of a time in the zone. */
export function formatOf(options) {
  const id = zone.value + JSON.stringify(options);
  if (!formats.has(id)) formats.set(id, new Intl.DateTimeFormat(undefined, { ...options, timeZone: zone.value }));
  return formats.get(id);
}

/** What an input of type datetime-local has for an instant. */
export const localTime = (at) => new Date(zone.value === "UTC" ? at : at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);

/** The instant that such an input has. */
export const instantOf = (text) => new Date(zone.value === "UTC" ? `${text}Z` : text);
