// Asking again and again, without being a burden.
import { useEffect, useRef } from "./ui.js";

/**
 * Calls fn after a delay and then every so many seconds, while the page is
 * visible; when answers are slow or do not come, less often. Returns what ends it.
 */
function poll(fn, seconds, delay) {
  let timer, failures = 0, over = false, running = false;
  const round = async () => {
    clearTimeout(timer);
    if (over || running || document.hidden) return;
    running = true;
    const began = performance.now();
    try {
      await fn();
      failures = 0;
    } catch {
      failures++; // the views that can do something about it say so
    }
    running = false;
    const took = (performance.now() - began) / 1000;
    if (!over) timer = setTimeout(round, 1000 * Math.max(Math.min(seconds * 2 ** failures, 30), 4 * took));
  };
  document.addEventListener("visibilitychange", round);
  timer = setTimeout(round, delay * 1000);
  return () => {
    over = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", round);
  };
}

/** Polls while a view is shown, anew when keys change. */
export function usePoll(fn, seconds, keys, delay = 0) {
  const latest = useRef();
  latest.current = fn;
  useEffect(() => poll(() => latest.current(), seconds, delay), keys);
}
