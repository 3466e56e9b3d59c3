// The page that is shown, by the address behind the #. It never holds secrets.
import { computed, signal } from "./ui.js";

const hash = signal(location.hash);
addEventListener("hashchange", () => { hash.value = location.hash; });

/** {page: "home" | "connections" | "plugins" | "entity", name, tab} */
export const route = computed(() => {
  const [, page, name, tab] = hash.value.split("/");
  if (page === "entity" && name) return { page, name: decodeURIComponent(name), tab: tab ?? "" };
  return { page: page === "connections" || page === "plugins" ? page : "home", name: "", tab: "" };
});

export const addressOf = (name, tab = "") => `#/entity/${encodeURIComponent(name)}${tab && "/" + tab}`;

export const go = (address) => { location.hash = address; };
