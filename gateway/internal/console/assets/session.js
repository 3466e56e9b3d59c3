// The user who is signed in. The key or token is in the client's memory, and in this tab's storage if the user wants that.
import { Crosstown } from "crosstown";
import { closeDialogs, complain, computed, signal, toast } from "./ui.js";
import { kept } from "./storage.js";

/** The client and what the gateway says of its rights; null before signing in. */
export const session = signal(null);

/**
 * A value of the current session, which `read` asks for, and what loads it. It is null until it is
 * loaded, and again in the next session.
 */
export function ofSession(read) {
  const last = signal({});
  const load = async () => {
    const asker = session.value, answer = await read();
    if (session.value === asker) last.value = { asker, answer };
  };
  return [computed(() => (last.value.asker === session.value && last.value.answer) || null), load];
}

/** "open", "waiting" between attempts to connect again, or why it ended. */
export const line = signal("open");

/** Counts what this page changed, so that views look again. */
export const changes = signal(0);
export const changed = () => { changes.value++; };

export const bus = () => session.value.bus;

/** Whether any right of that name was given; Manage includes the others. */
export const may = (right) => session.value.rights.includes(right) || session.value.rights.includes("Manage");

/** Whether it may list entities and connections: Manage for one entity alone is not enough. */
export const mayList = () => may("Manage") && session.value.scope === "";

/** Whether it may see and do what concerns the gateway, with all of its namespaces. */
export const mayRun = () => session.value.operator;

/** Whether that is in the operator's own namespace. */
export const atHome = () => mayRun() && session.value.bus === session.value.home.bus;

/** What a user had this tab remember: a secret and, behind a line end, the namespace that an operator is in. */
const tab = kept("sessionStorage", "crosstown.secret");

/** Whether the tab remembers a user. */
export const remembers = () => tab.get() !== null;

/** Signs in with a connection string or a token; throws what is wrong with it. `remember` has the tab remember it. */
export async function signIn(secret, remember = false) {
  const text = secret.trim();
  const isConnection = /(^|;)\s*endpoint\s*=/i.test(text);
  if (!isConnection && !/^SharedAccessSignature |^[\w-]+\.[\w-]+\.[\w-]+$/.test(text)) {
    throw new Error("That is neither a connection string (Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…) nor a token.");
  }
  const options = isConnection ? { connectionString: text } : { token: text };
  const { client, rights } = await connect(options).catch((e) => {
    if (e.code !== "unauthorized") throw e;
    tab.clear();
    throw new Error(`The gateway refuses this connection string or token: ${e.message}`);
  });
  client.on("expiring", () => toast("The token expires within a minute. Sign in again with a new token.", true));
  if (remember) tab.set(text);
  begin({ bus: client, ...rights, home: { bus: client, rights, options } });
}

/** Signs in with what the tab remembers. */
export async function signInAgain() {
  const [secret, namespace] = tab.get().split("\n");
  await signIn(secret);
  if (namespace && mayRun()) await enter(namespace).catch(complain);
}

/** Opens a client, and tells of its connection while the session is on it. */
async function connect(options) {
  const client = new Crosstown(location.origin, options);
  const rights = new Promise((resolve) => client.on("open", resolve));
  try {
    await client.ready;
  } catch (e) {
    await client.close();
    throw e;
  }
  client.on("open", () => {
    if (session.value?.bus !== client) return;
    line.value = "open";
    changed();
  });
  client.on("close", ({ error, retryIn }) => {
    const { bus: current, home } = session.value ?? {};
    if (retryIn === null && client === home?.bus) leave(`Signed out: ${error.message}`);
    else if (client !== current) return;
    else if (retryIn === null) goHome(error.message);
    else line.value = "waiting";
  });
  return { client, rights: await rights };
}

/** Begins a session. Views forget what they hold of another one when there is none. */
function begin(next) {
  closeDialogs();
  session.value = null;
  line.value = next.bus.state === "open" ? "open" : "waiting";
  session.value = next;
}

/** Has an operator work in another namespace, with the rights that the operator has. */
export async function enter(namespace) {
  const { bus: before, home } = session.value;
  if (namespace === home.rights.namespace) return goHome();
  const { client, rights } = await connect({ ...home.options, namespace });
  begin({ bus: client, ...rights, operator: true, home });
  if (remembers()) tab.set(`${tab.get().split("\n")[0]}\n${namespace}`);
  if (before !== home.bus) await before.close();
}

/** Has an operator work in the own namespace again. */
export async function goHome(why) {
  const { bus: before, home } = session.value;
  begin({ bus: home.bus, ...home.rights, home });
  if (remembers()) tab.set(tab.get().split("\n")[0]);
  if (why) toast(`Back in ${home.rights.namespace}: ${why}`, true);
  if (before !== home.bus) await before.close();
}

async function leave(why) {
  const { bus: client, home } = session.value;
  closeDialogs();
  tab.clear();
  session.value = null;
  if (why) toast(why, true);
  await Promise.all([client.close(), home.bus.close()]);
}

export const signOut = () => leave();
