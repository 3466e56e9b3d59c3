// Messages of an entity, page by page and from either end, by their sequence numbers.
import { bus } from "./session.js";

const asked = 250; // messages in one answer, at most

/** Peeks up to `max` messages from a number on, in one state if that is given. */
const peek = (entity, state, from, max) => bus().peek(entity, { from, max: Math.min(max, asked), bodies: "binary", ...(state && { inState: state }) });

/**
 * The messages from a number on that `fits` takes, up to `size`, and up to `end` if that is given.
 * After `most` that it has looked at it stops: `next` is where to go on, undefined at the end.
 * `tell` is called with what was found so far, and stops it with false.
 */
export async function forward(entity, { state, from, size, end = Infinity, fits = () => true, most = Infinity, tell = () => true }) {
  const found = [];
  let next = from, seen = 0;
  while (found.length < size && seen < most) {
    const some = await peek(entity, state, next, fits.always === false ? asked : size - found.length); // an answer has about 1 MiB at most
    if (some.length === 0) return { found, seen };
    for (const m of some) {
      if (m.sequenceNumber >= end) return { found, seen };
      if (found.length === size) return { found, seen, next };
      next = m.sequenceNumber + 1;
      seen++;
      if (fits(m)) found.push(m);
    }
    if (tell(found, seen) === false) break;
  }
  return { found, seen, next };
}

const partition = 2 ** 48; // numbers of a partition
const beyond = 2 ** 52; // more than any number

/** The last number below `end`, 0 if there is none: found by halving, since numbers are in order. */
async function last(entity, state, end) {
  const first = async (from) => (await peek(entity, state, from, 1))[0]?.sequenceNumber ?? Infinity;
  let low = 0, high = end;
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
  return low;
}

/** The last `size` messages before a number, by default those at the end. */
export async function backward(entity, { state, end = beyond, size }) {
  const before = (await last(entity, state, end)) + 1;
  if (before === 1) return [];
  const base = Math.floor((before - 1) / partition) * partition; // a step back stays in the partition
  for (let width = size; ; width *= 8) {
    const from = Math.max(base + 1, before - width);
    const { found } = await forward(entity, { state, from, size: Infinity, end: before });
    if (found.length >= size || (from === 1 && base === 0)) return found.slice(-size);
    if (from === base + 1) return [...(await backward(entity, { state, end: base + 1, size: size - found.length })), ...found];
  }
}
