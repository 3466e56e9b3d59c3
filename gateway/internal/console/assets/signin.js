import { html, Form, Icon, useState } from "./ui.js";
import { signIn } from "./session.js";

const local = /^(localhost|127\.0\.0\.1|\[::1\])$/.test(location.hostname);
const icon = document.querySelector("link[rel=icon]").href;

export const Brand = () => html`<img src=${icon} alt="" />Crosstown`;

export function SignIn() {
  const [secret, set] = useState("");
  const [shown, show] = useState(false);
  const development = `Endpoint=sb://${location.host};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE`;
  return html`<div class="signin"><main>
    <h1 class="brand"><${Brand} /></h1>
    <p>Browse queues and topics, send and settle messages, resubmit dead letters.</p>
    <${Form} action="Sign in" submit=${() => signIn(secret)}>
      <div class="field">
        <label for="secret">Connection string or token</label>
        <div class="spread" style=${{ flexWrap: "nowrap" }}>
          <input id="secret" class="mono" type=${shown ? "text" : "password"} required autofocus autocomplete="off" spellcheck=${false}
            placeholder="Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…" value=${secret} onInput=${(e) => set(e.target.value)} aria-describedby="secret-hint" />
          <button type="button" class="button" aria-pressed=${shown} onClick=${() => show(!shown)}>${shown ? "Hide" : "Show"}</button>
        </div>
        <small id="secret-hint">The gateway prints it when it starts, after “connect”. It stays in this page's memory: reloading the page signs out.</small>
      </div>
    <//>
    ${local && html`<p><button type="button" class="button" onClick=${() => set(development)}><${Icon} name="plug" />Fill in the development key of a new gateway</button></p>`}
  </main></div>`;
}
