// What the gateway is asked over HTTP, since its protocol has no words for it.
import { bus, session } from "./session.js";

/** What concerns the gateway, and not the namespace that an operator is in. */
const ofGateway = /^(namespaces|plugins|pipelines|(status|history)\?gateway)\b/;

/** An entity's name as a part of a path. */
export const pathOf = (entity) => entity.split("/").map(encodeURIComponent).join("/");

/** Asks below /$crosstown; throws what the gateway has against it, with its `status`. */
export async function ask(path, init) {
  const response = await (ofGateway.test(path) ? session.value.home.bus : bus()).fetch(`/$crosstown/${path}`, init);
  const answer = await response.json();
  if (!response.ok) throw Object.assign(new Error(answer.error), { status: response.status });
  return answer;
}
