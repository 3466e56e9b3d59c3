// The user who is signed in. The key or token is in the client's memory, and in this tab's storage if the user wants that.
import { Crosstown } from "crosstown";
import { closeDialogs, signal, toast } from "./ui.js";
import { kept } from "./storage.js";

/** The client and what the gateway says of its rights; null before signing in. */
export const session = signal(null);

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

/** What a user had this tab remember. */
export const secretOfTab = kept("sessionStorage", "crosstown.secret");

/** Signs in with a connection string or a token; throws what is wrong with it. */
export async function signIn(secret, remember = false) {
  const text = secret.trim();
  const isConnection = /(^|;)\s*endpoint\s*=/i.test(text);
  if (!isConnection && !/^SharedAccessSignature |^[\w-]+\.[\w-]+\.[\w-]+$/.test(text)) {
    throw new Error("That is neither a connection string (Endpoint=sb://…;SharedAccessKeyName=…;SharedAccessKey=…) nor a token.");
  }
  const client = new Crosstown(location.origin, isConnection ? { connectionString: text } : { token: text });
  const rights = new Promise((resolve) => client.on("open", resolve));
  try {
    await client.ready;
  } catch (e) {
    await client.close();
    if (e.code !== "unauthorized") throw e;
    secretOfTab.clear();
    throw new Error(`The gateway refuses it: ${e.message}`);
  }
  client.on("open", () => {
    line.value = "open";
    changed();
  });
  client.on("close", ({ error, retryIn }) => {
    if (session.value?.bus !== client) return;
    if (retryIn !== null) line.value = "waiting";
    else leave(error.message);
  });
  client.on("expiring", () => toast("The token ends within a minute. Sign in again with a new one.", true));
  line.value = "open";
  if (remember) secretOfTab.set(text);
  session.value = { bus: client, ...(await rights) };
}

function leave(why) {
  closeDialogs();
  secretOfTab.clear();
  session.value = null;
  if (why) toast(`Signed out: ${why}`, true);
}

export async function signOut() {
  const { bus: client } = session.value;
  leave();
  await client.close();
}
