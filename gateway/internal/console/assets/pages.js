// Messages of an entity, page by page and from either end, by their sequence numbers.
import { bus } from "./session.js";

const asked = 250; // messages in one answer, at most
const enough = 8 << 20; // bytes of bodies in a page

const sizeOf = (m) => m.binary?.length ?? 0;

/** Peeks up to `max` messages from a number on, in one state if that is given. */
const peek = (entity, state, from, max) => bus().peek(entity, { from, max: Math.min(max, asked), bodies: "binary", ...(state && { inState: state }) });

/**
 * The messages from a number on that `fits` takes, up to `size`, and up to `end` if that is given.
 * After `most` that it has looked at, or `enough` bytes, it stops: `next` is where to go on, undefined at the end,
 * and `full` says that it was for the bytes. `tell` is called with what was found so far, and stops it with false.
 */
export async function forward(entity, { state, from, size, end = Infinity, fits = () => true, most = Infinity, tell = () => true }) {
  const found = [];
  let next = from, seen = 0, bytes = 0;
  while (found.length < size && seen < most) {
    const some = await peek(entity, state, next, fits.always === false ? asked : size - found.length); // an answer has about 1 MiB at most
    if (some.length === 0) return { found, seen };
    for (const m of some) {
      if (m.sequenceNumber >= end) return { found, seen };
      if (found.length === size) return { found, seen, next };
      next = m.sequenceNumber + 1;
      seen++;
      if (!fits(m)) continue;
      found.push(m);
      bytes += sizeOf(m);
    }
    if (bytes > enough && found.length < size) return { found, seen, next, full: true };
    if (tell(found, seen) === false) break;
  }
  return { found, seen, next };
}

const partition = 2 ** 48; // numbers of a partition
const beyond = 2 ** 52; // more than any number

/** The last message below `end`: its number, 0 if there is none, and its bytes. Found by halving, since numbers are in order. */
async function last(entity, state, end) {
  let low = 0, high = end, bytes = 0;
  const first = async (from) => {
    const [m] = await peek(entity, state, from, 1);
    if (m && m.sequenceNumber < high) bytes = sizeOf(m);
    return m?.sequenceNumber ?? Infinity;
  };
  for (let step = 1; ; step *= 2) { // from what is there to what is not
    const at = low + step;
    if (at >= high) break;
    const n = await first(at);
    if (n < high) low = n;
    else { high = at; break; }
  }
  while (high - low > 1) {
    const middle = low + Math.floor((high - low) / 2), n = await first(middle);
    if (n < high) low = n;
    else high = middle;
  }
  return { number: low, bytes };
}

/** The last `size` messages before a number, by default those at the end; fewer where they have more than `enough` bytes. */
export async function backward(entity, { state, end = beyond, size }) {
  const { number, bytes } = await last(entity, state, end), before = number + 1;
  if (number === 0) return { found: [], earlier: false };
  const base = Math.floor((before - 1) / partition) * partition; // a step back stays in the partition
  let found = [], tooWide = Infinity;
  for (let width = Math.max(Math.min(size, Math.floor(enough / (bytes || 1))), 1); width < tooWide;) {
    const from = Math.max(base + 1, before - width);
    const some = await forward(entity, { state, from, size: Infinity, end: before });
    if (some.full && width > 1) {
      if (found.length > 0) break;
      tooWide = width;
      width = Math.ceil(width / 8);
      continue;
    }
    found = some.found;
    if (found.length >= size) return { found: found.slice(-size), earlier: true };
    if (from === base + 1) {
      const rest = base > 0 ? await backward(entity, { state, end: base + 1, size: size - found.length }) : { found: [], earlier: false };
      return { found: [...rest.found, ...found], earlier: rest.earlier };
    }
    if (8 * found.reduce((sum, m) => sum + sizeOf(m), 0) > enough) break;
    width *= 8;
  }
  return { found, earlier: true };
}
