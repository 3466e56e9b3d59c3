// What the gateway says of itself and of the namespace.
import { signal } from "./ui.js";
import { ask } from "./adminapi.js";
import { session } from "./session.js";

/** The last answer; null before the first, and for keys that may not ask. */
export const status = signal(null);

let asked = 0; // when status was

/** Asks for it. */
export async function loadStatus() {
  const asker = session.value, answer = await ask("status");
  if (session.value !== asker) return;
  asked = Date.now();
  status.value = answer;
}

export const clearStatus = () => { status.value = null; };

/** The namespace's time in ms, which may not be this machine's. */
export function now() {
  if (!status.value) return Date.now();
  const then = Date.parse(status.value.now);
  return status.value.frozen ? then : then + Date.now() - asked;
}
