// How numbers, times and durations are written.
import { formatOf } from "./zone.js";

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

/** A count, short where it is long. */
export const amount = (n) => (n === undefined ? "–" : n < 100_000 ? whole.format(n) : compact.format(n));

/** Messages a second. */
export const rate = (n) => (n === undefined ? "–" : n === 0 ? "0" : n < 10 ? n.toFixed(1) : amount(Math.round(n)));

export function bytes(n) {
  if (n === undefined) return "–";
  for (const unit of ["B", "KiB", "MiB"]) {
    if (n < 1024) return `${unit === "B" ? n : n.toFixed(1)} ${unit}`;
    n /= 1024;
  }
  return `${n.toFixed(1)} GiB`;
}

const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" };
const day = { dateStyle: "medium" };

/** An instant of RFC 3339 to the millisecond in the page's zone, with its day unless that is today and not asked for. */
export function time(instant, withDay) {
  const at = new Date(instant ?? NaN);
  if (Number.isNaN(at.getTime())) return "–";
  const on = formatOf(day).format(at), o = formatOf(clock).format(at);
  return withDay || on !== formatOf(day).format(Date.now()) ? `${on} ${o}` : o;
}

/** How long until an instant, "" when it has passed. */
export function until(instant, now = Date.now()) {
  const s = Math.ceil((new Date(instant) - now) / 1000);
  return s <= 0 ? "" : s < 60 ? `${s} s` : `${Math.floor(s / 60)} min ${s % 60} s`;
}

/** How long something takes, or took, in seconds. */
export function age(seconds) {
  if (!(seconds >= 0)) return "–";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  for (const [unit, size, next] of [["s", 1, 120], ["min", 60, 120], ["h", 3600, 72]]) if (seconds < size * next) return `${Math.floor(seconds / size)} ${unit}`;
  return `${Math.floor(seconds / 86400)} d`;
}

const parts = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?$/;

/** A duration of ISO 8601 for people. */
export function duration(iso) {
  const m = parts.exec(iso);
  if (!m) return iso ?? "–";
  if (Number(m[1]) >= 10_000_000) return "forever";
  let rest = Number(m[1] ?? 0) * units.d + Number(m[2] ?? 0) * units.h + Number(m[3] ?? 0) * units.min + Number(m[4] ?? 0);
  const words = [];
  for (const unit of ["d", "h", "min"]) {
    const n = Math.floor(rest / units[unit]);
    if (n > 0) words.push(`${n} ${unit}`);
    rest -= n * units[unit];
  }
  if (rest > 0 || words.length === 0) words.push(`${Number(rest.toFixed(3))} s`);
  return words.join(" ");
}

const units = { d: 86400, h: 3600, m: 60, min: 60, s: 1 };

/** What people write for a duration ("90 s", "1h 30min", "forever", or ISO 8601) as ISO 8601. Throws if it is none. */
export function parseDuration(text) {
  const t = text.trim();
  if (/^forever$/i.test(t)) return "P10675199DT2H48M5.4775807S";
  if (/^P/i.test(t)) return t.toUpperCase();
  let seconds = 0;
  const rest = t.replace(/(\d+(?:\.\d+)?)\s*(d|h|min|m|s)\s*/gi, (_, n, unit) => {
    seconds += n * units[unit.toLowerCase()];
    return "";
  });
  if (rest || !t) throw new Error(`“${text}” is not a duration: write it like 30 s, 1h 30min, 14 d or forever.`);
  return `PT${seconds}S`;
}
