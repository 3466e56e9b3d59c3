// What the gateway says of itself and of the namespace.
import { html, Empty, Loading, textOf, useState } from "./ui.js";
import { ask } from "./adminapi.js";
import { ofSession } from "./session.js";
import { amount, bytes, rate, time } from "./format.js";
import { Chart } from "./chart.js";
import { usePoll } from "./poll.js";
import { joined, useSpan } from "./history.js";
import { Tile } from "./home.js";

/** The last answer; null before the first, and for keys that may not ask. */
export const [status, loadStatus] = ofSession(async () => ({ ...await ask("status"), asked: Date.now() }));

/** The namespace's time in ms, which may not be this machine's. */
export function now() {
  if (!status.value) return Date.now();
  const then = Date.parse(status.value.now);
  return status.value.frozen ? then : then + Date.now() - status.value.asked;
}

const latency = [{ key: "latencyMs", label: "Store", color: "in", write: (n) => (n === undefined ? "–" : `${n} ms`) }];
const memory = [
  { key: "inUse", label: "In use", color: "in", write: bytes },
  { key: "messages", label: "Messages in progress", color: "warn", write: bytes },
];

/** The gateway itself, for operators. */
export function Gateway() {
  const [g, setGateway] = useState(), [live, setLive] = useState([]), [history, setHistory] = useState([]), [problem, setProblem] = useState();
  const samples = joined(history, live), [span, control] = useSpan();
  usePoll(async () => {
    const { at, latencyMs, inUse, messages } = await ask("history?gateway");
    setHistory(at.map((t, i) => ({ t: t * 1000, kept: true, latencyMs: latencyMs[i], inUse: inUse[i], messages: messages[i] })));
  }, 60, []);
  usePoll(async () => {
    try {
      const { gateway } = await ask("status?gateway"), { store, memory } = gateway;
      setGateway(gateway);
      setLive((before) => [...before.slice(-1000), { t: Date.now(), latencyMs: store.latencyMs, inUse: memory.inUse, messages: memory.messages }]);
      setProblem();
    } catch (e) {
      setProblem(e);
      throw e;
    }
  }, 2, []);
  if (!g) return problem ? html`<${Empty} title="That did not work">${textOf(problem)}<//>` : html`<${Loading} />`;
  const { store } = g, connections = Object.entries(g.connections).sort();
  return html`<div class="page"><h1>Gateway</h1>
    <p class="muted">The gateway that this page is connected to: ${location.host}. The page does not show other gateways of the same store.</p>
    ${problem && html`<p class="problem" role="alert">${textOf(problem)}</p>`}
    ${store.error && html`<p class="problem" role="alert">The store takes no messages: ${store.error}</p>`}
    <dl class="tiles">
      <${Tile} name="Store latency" value=${`${store.latencyMs} ms`} bad=${Boolean(store.error)} />
      <${Tile} name="In" value=${`${rate(g.in)}/s`} /><${Tile} name="Out" value=${`${rate(g.out)}/s`} />
      <${Tile} name="Connections" value=${html`<a href="#/connections">${amount(connections.reduce((n, [, c]) => n + c, 0))}</a>`} />
      <${Tile} name="Memory" value=${bytes(g.memory.inUse)} unit=${`of ${bytes(g.memory.limit)}`} />
      <${Tile} name="Namespaces" value=${amount(g.namespaces)} />
    </dl>
    <div class="halves">
      <${Chart} title="Store latency" samples=${samples} series=${latency} span=${span} control=${control} mark=${(v) => `${Number(v.toFixed(2))} ms`} />
      <${Chart} title="Memory" samples=${samples} series=${memory} span=${span} mark=${(v) => bytes(v).replace(/\.\d+/, "")} />
    </div>
    <div class="halves">
      <section class="card" aria-labelledby="program"><header><h2 id="program">Program</h2></header><dl class="glance">
        <${Fact} name="Version" value=${g.version} /><${Fact} name="Started" value=${time(g.started)} />
        <${Fact} name="Messages in progress" value=${`${bytes(g.memory.messages)} of ${bytes(g.memory.messagesLimit)}`} />
        ${connections.map(([protocol, n]) => html`<${Fact} name=${`Connections, ${protocol}`} value=${amount(n)} />`)}
      </dl></section>
      <section class="card" aria-labelledby="store"><header><h2 id="store">Store</h2><span class=${`badge ${store.durable ? "good" : "warn"}`}>${store.durable ? "survives a restart" : "lost with the gateway"}</span></header><dl class="glance">
        <${Fact} name="Engine" value=${store.engine} />${store.detail && html`<${Fact} name="Where" value=${store.detail} />`}
        <${Fact} name="Clock ahead" value=${`${store.skewMs} ms`} />
      </dl>${(store.warnings ?? []).map((w) => html`<p class="in problem">${w}</p>`)}</section>
    </div>
  </div>`;
}

const Fact = ({ name, value }) => html`<div><dt>${name}</dt><dd class="wrap">${value}</dd></div>`;
