// Lines over time.
import uPlot from "uplot";
import { html, useEffect, useRef, useState } from "./ui.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const least = 60; // seconds that are shown
const silence = 15_000; // ms without a sample, about which a line must not say anything

/** Samples with nothing between those that are far apart. */
const withGaps = (samples) => samples.flatMap((s, i) => (i > 0 && s.t - samples[i - 1].t > silence ? [{ t: samples[i - 1].t + 1 }, s] : [s]));

const dark = matchMedia("(prefers-color-scheme: dark)");

/**
 * Draws samples ({t, …}); series are {key, label, color, write}. What is drawn last
 * is also there as text.
 */
export function Chart({ title, series, samples, children }) {
  const ref = useRef(), plot = useRef();
  const [theme, setTheme] = useState(dark.matches);
  const points = withGaps(samples);
  const data = [points.map((s) => s.t / 1000), ...series.map(({ key }) => points.map((s) => s[key] ?? null))];
  useEffect(() => {
    const follow = () => setTheme(dark.matches);
    dark.addEventListener("change", follow);
    return () => dark.removeEventListener("change", follow);
  }, []);
  useEffect(() => {
    const box = ref.current, style = getComputedStyle(box);
    const color = (name) => probe(box, `var(--${name})`);
    const axis = { stroke: color("muted"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: `11px ${style.fontFamily}` };
    const size = () => ({ width: Math.max(box.clientWidth - 16, 100), height: box.clientHeight - 12 });
    const chart = plot.current = new uPlot({
      ...size(),
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { range: (_, first, last) => [Math.min(first, last - least), last] }, y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] } },
      axes: [{ ...axis, space: 90, size: 28, values: (_, all) => all.map((t) => clock.format(t * 1000)) }, { ...axis, size: 44, values: (_, all) => all.map((v) => (Number.isInteger(v) ? v.toLocaleString(undefined, { notation: "compact" }) : "")) }],
      series: [{}, ...series.map((s) => ({ stroke: color(s.color), width: 2, fill: color(s.color) + "1c", points: { show: false } }))],
    }, data, box);
    const watch = new ResizeObserver(() => chart.setSize(size()));
    watch.observe(box);
    return () => {
      watch.disconnect();
      chart.destroy();
    };
  }, [theme]);
  useEffect(() => plot.current?.setData(data), [samples.at(-1)?.t, samples.length]);
  const last = samples.at(-1) ?? {};
  return html`<figure class="card" style=${{ margin: 0 }}>
    <header><h3>${title}</h3>
      <div class="legend push">${series.map((s) => html`<span><i style=${{ background: `var(--${s.color})` }}></i>${s.label} <b>${s.write(last[s.key])}</b></span>`)}</div>
    </header>
    <div class="chart" ref=${ref} aria-hidden="true"></div>${children}
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
