import { html, Check, Form, Icon, Loading, textOf, useEffect, useState } from "./ui.js";
import { remembers, signIn, signInAgain } from "./session.js";

const local = /^(localhost|127\.0\.0\.1|\[::1\])$/.test(location.hostname);
const icon = document.querySelector("link[rel=icon]").href;

export const Brand = () => html`<img src=${icon} alt="" /><span class="text">Crosstown</span>`;

export function SignIn() {
  const [secret, set] = useState(""), [shown, show] = useState(false), [remember, setRemember] = useState(false);
  const [known, setKnown] = useState(remembers), [problem, setProblem] = useState();
  useEffect(() => { if (known) signInAgain().catch(setProblem).then(() => setKnown(false)); }, []);
  const development = `Endpoint=sb://${location.host};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE`;
  if (known) return html`<div class="signin"><main><h1 class="brand"><${Brand} /></h1><${Loading} what="Signing in" /></main></div>`;
  return html`<div class="signin"><main>
    <h1 class="brand"><${Brand} /></h1>
    <p>Browse queues and topics, send and settle messages, resubmit dead letters.</p>
    ${problem && html`<p class="note bad" role="alert">${textOf(problem)}</p>`}
    <${Form} action="Sign in" submit=${() => signIn(secret, remember)}>
      <div class="field">
        <label for="secret">Connection string or token</label>
        <div class="secret">
          <input id="secret" class="mono" type=${shown ? "text" : "password"} required autofocus autocomplete="off" spellcheck=${false}
            placeholder="Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…" value=${secret} onInput=${(e) => set(e.target.value)} aria-describedby="secret-hint" />
          <button type="button" class="button" aria-pressed=${shown} onClick=${() => show(!shown)}>${shown ? "Hide" : "Show"}</button>
        </div>
        <small id="secret-hint">The gateway prints the connection string when it starts, after “connect”.</small>
      </div>
      <${Check} label="Remember in this tab" value=${remember} set=${setRemember} hint="Until you sign out or close the tab. Otherwise reloading the page signs you out." />
    <//>
    ${local && html`<p><button type="button" class="button" onClick=${() => set(development)}><${Icon} name="plug" />Fill in the development key</button></p>`}
  </main></div>`;
}
