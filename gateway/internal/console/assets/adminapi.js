// What the gateway is asked over HTTP, since its protocol has no words for it.
import { bus } from "./session.js";

/** Asks below /$crosstown; throws what the gateway has against it, with its `status`. */
export async function ask(path, init) {
  const response = await bus().fetch(`/$crosstown/${path}`, init);
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.error), { status: response.status });
  return answer;
}
