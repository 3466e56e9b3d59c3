// The console: a page that shows a gateway and its messages.
import { render } from "preact";
import { html, Dialogs, Notices } from "./ui.js";
import { session } from "./session.js";
import { Shell } from "./shell.js";
import { SignIn } from "./signin.js";

const App = () => html`${session.value ? html`<${Shell} key=${session.value.namespace} />` : html`<${SignIn} />`}<${Dialogs} /><${Notices} />`;

render(html`<${App} />`, document.getElementById("app"));
