// The page that is shown, by the address behind the #. It never holds secrets.
import { computed, signal } from "./ui.js";

const hash = signal(location.hash);
addEventListener("hashchange", () => { hash.value = location.hash; });

const pages = ["connections", "entities", "gateway", "namespaces", "plugins", "remotes", "schedules", "testing", "webhooks"];

/** {page: "home" | "entity" | one of pages, name, tab; of a message's story also its id or number} */
export const route = computed(() => {
  const [, page, name = "", tab = "", id = "", number = ""] = hash.value.split("/").map(decoded);
  if (page === "entity" && name) return { page, name, tab, id, number };
  return pages.includes(page) ? { page, name } : { page: "home", name: "" };
});

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // it was written by hand
  }
}

/** Where it is told what happened to a message of an entity, by its id, else by its sequence number. */
export const addressOfStory = (name, id = "", number = "") => addressOf(name, `story/${id ? encodeURIComponent(id) : `/${number}`}`);

export const addressOf = (name, tab = "") => `#/entity/${encodeURIComponent(name)}${tab && "/" + tab}`;

export const go = (address) => { location.hash = address; };
