// Which rules match a message, and why not.
import { html, Check, Empty, Form, Icon, useState } from "./ui.js";
import { bus } from "./session.js";
import { blank, Fields, messageOf } from "./compose.js";
import { draftOf, FilterFields, ruleOf } from "./filter.js";
import { amount } from "./format.js";
import { addressOf } from "./route.js";
import { toText, typeOf } from "./values.js";

/** Tries messages on a topic's rules, or on those of one subscription; nothing is sent. */
export function Tester({ topic, subscription }) {
  const [form, set] = useState(() => ({ ...blank(), properties: [{ name: "", type: "string", text: "" }] }));
  const [unsaved, setUnsaved] = useState(false), [rule, setRule] = useState(draftOf());
  const [found, setFound] = useState();
  const test = async () => {
    const message = messageOf({ ...form, properties: form.properties.filter((p) => p.name || p.text) });
    setFound(await bus().testRules(subscription ?? topic, message, unsaved ? [{ ...ruleOf(rule), name: "unsaved" }] : undefined));
  };
  return html`<section class="card"><header><h2>Filter tester</h2><span class="muted">nothing is sent</span></header>
    <div class="in halves">
      <${Form} action="Test" submit=${test}>
        <${Fields} form=${form} set=${set} short />
        <${Check} label="Try a filter that is not saved" value=${unsaved} set=${setUnsaved} />
        ${unsaved && html`<fieldset><legend>Unsaved filter</legend><${FilterFields} form=${rule} set=${setRule} /></fieldset>`}
      <//>
      <div aria-live="polite">${!found ? html`<${Empty} title="Which rules match?">Describe a message and press “Test”: each rule shows whether it matches, and why.<//>`
        : found.total === 0 ? html`<${Empty} title="No rules">The entity has no rules that could match.<//>`
        : html`<${Verdicts} of=${found} topic=${subscription ? undefined : topic} />`}</div>
    </div></section>`;
}

/** The verdicts, with links to the subscriptions if a topic is given. */
function Verdicts({ of: { judgements, total, matched }, topic }) {
  return html`<p><strong>${amount(matched)} of ${amount(total)} ${total === 1 ? "rule matches" : "rules match"}.</strong>
      ${judgements.length < total && html` <span class="muted">The first ${amount(judgements.length)} are shown.</span>`}</p>
    <div class="scroll"><table><thead><tr><th>Rule</th><th>Verdict</th><th>Why</th></tr></thead><tbody>
    ${judgements.map((j) => html`<tr key=${j.subscription + j.rule}>
      <td class="wrap">${topic && j.subscription && html`<a href=${addressOf(/\/subscriptions\//i.test(j.subscription) ? j.subscription : `${topic}/Subscriptions/${j.subscription}`)}>${j.subscription.split("/").at(-1)}</a> · `}${j.rule}</td>
      <td class="tight">${j.error ? html`<span class="verdict bad"><${Icon} name="close" />error</span>` : j.matched ? html`<span class="verdict yes"><${Icon} name="check" />matches</span>` : html`<span class="verdict no"><${Icon} name="close" />no match</span>`}</td>
      <td class="wrap"><ul class="why">${[j.error, ...(j.why ?? [])].filter(Boolean).map((w) => html`<li>${w}</li>`)}</ul>${j.message && html`<${Copied} message=${j.message} />`}</td></tr>`)}
    </tbody></table></div>`;
}

/** What an action makes of the message. */
const Copied = ({ message }) => html`<details><summary>The copy</summary><table class="facts"><tbody>
  ${Object.entries(message.broker).map(([k, v]) => html`<tr><th>sys.${k}</th><td>${toText(v)}</td></tr>`)}
  ${Object.entries(message.properties).map(([k, v]) => html`<tr><th>${k}</th><td>${toText(v)} <small>${typeOf(v)}</small></td></tr>`)}</tbody></table></details>`;
