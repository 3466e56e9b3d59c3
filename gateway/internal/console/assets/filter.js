// Filters and actions of rules: as text, and as a form.
import { html, Field, Input, Select } from "./ui.js";
import { Properties } from "./compose.js";
import { toText, toValue, typeOf } from "./values.js";

/** A filter in one line. */
export function filterText({ kind, sql, parameters, correlation }) {
  const pairs = (o) => Object.entries(o ?? {}).map(([k, v]) => `${k} = ${typeof v === "string" ? `'${v}'` : toText(v)}`);
  if (kind === "sql") return [sql, ...pairs(parameters)].join("; ");
  if (kind !== "correlation") return kind;
  const { properties, ...broker } = correlation;
  return [...pairs(broker), ...pairs(properties)].join(" and ");
}

const correlated = ["Label", "MessageId", "CorrelationId", "To", "ReplyTo", "SessionId", "ReplyToSessionId", "ContentType"];

const rowsOf = (values) => Object.entries(values ?? {}).map(([name, v]) => ({ name, type: typeOf(v), text: toText(v) }));
const valuesOf = (rows) => Object.fromEntries(rows.map(({ name, type, text }) => [name, toValue(type, text)]));

/** A rule as the form of FilterFields has it. */
export function draftOf(rule = { name: "", filter: { kind: "sql", sql: "" } }) {
  const { properties, ...broker } = rule.filter.correlation ?? {};
  return { name: rule.name, kind: rule.filter.kind, sql: rule.filter.sql ?? "", parameters: rowsOf(rule.filter.parameters), broker, properties: rowsOf(properties), action: rule.action ?? "", actionParameters: rowsOf(rule.actionParameters) };
}

/** The rule that a form describes. Throws what is wrong, for people. */
export function ruleOf(form) {
  const filter = { kind: form.kind };
  if (form.kind === "sql") Object.assign(filter, { sql: form.sql, parameters: valuesOf(form.parameters) });
  if (form.kind === "correlation") filter.correlation = { ...Object.fromEntries(Object.entries(form.broker).filter(([, v]) => v !== "")), properties: valuesOf(form.properties) };
  return form.action ? { name: form.name, filter, action: form.action, actionParameters: valuesOf(form.actionParameters) } : { name: form.name, filter };
}

export function FilterFields({ form, set }) {
  const put = (name) => (v) => set({ ...form, [name]: v });
  return html`
    <${Select} label="Filter" value=${form.kind} set=${put("kind")} options=${[["sql", "SQL expression"], ["correlation", "Correlation: all given properties are equal"], ["true", "True: everything"], ["false", "False: nothing"]]} />
    ${form.kind === "sql" && html`
      <${Field} label="Expression" hint="User properties by name, broker properties as sys.Label: region = 'eu' AND amount > 100">${(a) => html`<textarea ...${a} required rows="3" style=${{ minHeight: "4rem" }} value=${form.sql} spellcheck=${false} onInput=${(e) => put("sql")(e.target.value)}></textarea>`}<//>
      ${(form.sql.includes("@") || form.parameters.length > 0) && html`<${Properties} legend="Parameters of the filter" list=${form.parameters} set=${put("parameters")} />`}`}
    ${form.kind === "correlation" && html`
      <div class="fields">${correlated.map((n) => html`<${Input} label=${n} value=${form.broker[n] ?? ""} set=${(v) => put("broker")({ ...form.broker, [n]: v })} />`)}</div>
      <${Properties} list=${form.properties} set=${put("properties")} />`}
    <${Input} label="Action" class="wide" value=${form.action} set=${put("action")} placeholder="SET priority = 'high'" hint="Optional SQL that changes the copy; the subscription gets a separate copy for each rule with an action" />
    ${(form.action.includes("@") || form.actionParameters.length > 0) && html`<${Properties} legend="Parameters of the action" list=${form.actionParameters} set=${put("actionParameters")} />`}`;
}
