// Lines over time.
import uPlot from "uplot";
import { html, useEffect, useRef, useState } from "./ui.js";
import { formatOf, zone } from "./zone.js";

const minute = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }, second = { ...minute, second: "2-digit" };
const least = 60; // seconds that are shown
const silence = 15_000; // ms without a sample, about which a line must not say anything

/** Samples with nothing between those that are far apart, unless the gateway has kept them: it knows that nothing was there. */
const withGaps = (samples) => samples.flatMap((s, i) => (i > 0 && s.t - samples[i - 1].t > silence && !samples[i - 1].kept ? [{ t: samples[i - 1].t + 1 }, s] : [s]));

/**
 * The times at both ends of the axis, in seconds, for samples from first to last; both are null where there
 * are none. `now` is in seconds, too.
 */
export function ends(first, last, span, now = Date.now() / 1000) {
  const end = last ?? now;
  return [Math.min(Math.max(first ?? end, end - span), end - least), end];
}

const dark = matchMedia("(prefers-color-scheme: dark)");

const whole = (v) => (Number.isInteger(v) ? v.toLocaleString(undefined, { notation: "compact" }) : "");

/**
 * Draws the samples ({t, …}) of the last `span` seconds; series are {key, label, color, write}, and `mark`
 * writes a number beside the axis. What is drawn last is also there as text.
 */
export function Chart({ title, series, samples, span = 3600, mark = whole, control, children }) {
  const ref = useRef(), plot = useRef(), axis = useRef();
  const [theme, setTheme] = useState(dark.matches);
  const from = (samples.at(-1)?.t ?? 0) - span * 1000, points = withGaps(samples.filter((s) => s.t >= from));
  const data = [points.map((s) => s.t / 1000), ...series.map(({ key }) => points.map((s) => s[key] ?? null))];
  axis.current = ends(data[0][0], data[0].at(-1), span); // uPlot's own begin in 1970 without a sample, and end tomorrow with one
  useEffect(() => {
    const follow = () => setTheme(dark.matches);
    dark.addEventListener("change", follow);
    return () => dark.removeEventListener("change", follow);
  }, []);
  useEffect(() => {
    const box = ref.current, style = getComputedStyle(box);
    const color = (name) => probe(box, `var(--${name})`);
    const look = { stroke: color("muted"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: `11px ${style.fontFamily}` };
    const size = () => ({ width: Math.max(box.clientWidth - 16, 100), height: box.clientHeight - 12 });
    const chart = plot.current = new uPlot({
      ...size(),
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { range: () => axis.current }, y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] } },
      axes: [{ ...look, space: 90, size: 28, values: (_, all) => all.map((t) => formatOf(all.at(-1) - all[0] > 600 ? minute : second).format(t * 1000)) }, { ...look, size: 56, values: (_, all) => all.map(mark) }],
      series: [{}, ...series.map((s) => ({ stroke: color(s.color), width: 2, fill: color(s.color) + "1c", points: { show: false } }))],
    }, data, box);
    const watch = new ResizeObserver(() => chart.setSize(size()));
    watch.observe(box);
    return () => {
      watch.disconnect();
      chart.destroy();
    };
  }, [theme, span, zone.value]);
  useEffect(() => plot.current?.setData(data), [samples.at(-1)?.t, samples.length, samples[0]?.t, span]);
  const last = samples.at(-1) ?? {};
  return html`<figure class="card" style=${{ margin: 0 }}>
    <header><h2>${title}</h2>
      <div class="legend push">${series.map((s) => html`<span><i style=${{ background: `var(--${s.color})` }}></i>${s.label} <b>${s.write(last[s.key])}</b></span>`)}${control}</div>
    </header>
    <div class="chart" ref=${ref} aria-hidden="true" data-from=${axis.current[0]} data-to=${axis.current[1]}></div>${children}
  </figure>`;
}

/** A color of the style sheet as #rrggbb, which canvases take in every theme. */
function probe(box, value) {
  const element = box.appendChild(document.createElement("span"));
  element.style.color = value;
  const [r, g, b] = getComputedStyle(element).color.match(/[\d.]+/g).map(Number);
  element.remove();
  return "#" + [r, g, b].map((n) => Math.round(n).toString(16).padStart(2, "0")).join("");
}
