// What the browser keeps for the page, where it keeps anything.

/** A text in a storage, `localStorage` or `sessionStorage`; null where there is none. */
export function kept(storage, key) {
  const attempt = (work) => {
    try {
      return work(globalThis[storage]);
    } catch {
      return null; // the browser refuses: the text is for as long as the page is open
    }
  };
  return {
    get: () => attempt((s) => s.getItem(key)),
    set: (text) => attempt((s) => s.setItem(key, text)),
    clear: () => attempt((s) => s.removeItem(key)),
  };
}
