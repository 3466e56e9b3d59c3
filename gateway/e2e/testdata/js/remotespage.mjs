// The console's page of remotes, while one goes away and comes back.
import assert from "node:assert/strict";
import { accessible, faultsOf } from "./accessible.mjs";
import { browse } from "./browser.mjs";
import { startProxy } from "./proxy.mjs";

const { STORY_CONNECTION: connection, STORY_TENANT: tenant, STORY_GATEWAY: gateway, STORY_PORT: port, STORY_SCREENSHOTS: pictures } = process.env;

await browse(async (page) => {
  const faults = await faultsOf(page, gateway);
  const link = page.getByRole("navigation").getByRole("link", { name: "Remotes" });
  const remote = (name) => page.getByRole("region", { name, exact: true }), row = (name) => remote("hq").getByRole("row", { name });
  const signIn = async (secret) => {
    await page.getByLabel("Connection string or token").fill(secret);
    await page.keyboard.press("Enter");
  };
  const send = (secret, ...sent) => page.evaluate(async ([secret, ...sent]) => {
    const { Crosstown } = await import("/client/crosstown.js");
    const client = new Crosstown(location.origin, { connectionString: secret });
    await client.send(...sent);
    await client.close();
  }, [secret, ...sent]);

  // It is away: what is to go there waits, and why is said.
  await page.goto(`http://${gateway}/`);
  await signIn(connection);
  await link.click();
  await page.getByRole("heading", { name: "Remotes", exact: true }).waitFor();
  await remote("hq").getByText("away", { exact: true }).first().waitFor();
  await remote("hq").getByText("connection refused").first().waitFor();
  await send(connection, "outbox", ["one", "two"]);
  await row(/^outbox inbox 2 \d+\.\d s$/).waitFor();
  await row(/^news desk away 0 0 0 –$/).waitFor();
  await accessible(page, "a remote that is away");

  // It is there: all goes its way, and is counted. The page is not loaded anew.
  const proxy = await startProxy(gateway, Number(port));
  await remote("hq").getByText("connected", { exact: true }).waitFor();
  await row(/^outbox inbox 0 –$/).waitFor();
  await row(/^inbox 2 0 \d+ 0 \d+\.\d ms$/).waitFor();
  await send(tenant, "news", ["three"]);
  await row(/^news desk attached 1 0 0 \d+\.\d s$/).waitFor();
  await accessible(page, "a remote that is connected");
  if (pictures) await page.screenshot({ path: `${pictures}/console-remotes.png` });

  // It goes away again.
  proxy.close();
  proxy.cut("at once");
  await remote("hq").getByText("away", { exact: true }).first().waitFor();
  await send(connection, "outbox", ["four"]);
  await row(/^outbox inbox 1 /).waitFor();
  await row(/^outbox inbox 1 /).getByRole("link").click();
  await page.getByRole("heading", { name: "outbox" }).waitFor();
  await page.getByRole("button", { name: "Message 3", exact: true }).waitFor();
  await link.click();

  // Those of other namespaces are told apart, and are no way into these.
  await remote("office").getByText("rented", { exact: true }).waitFor();
  assert.equal(await remote("hq").getByText("rented", { exact: true }).count(), 0);
  await remote("office").getByRole("row", { name: /^deals\/Subscriptions\/all desk 0 –$/ }).waitFor();
  assert.equal(await remote("office").getByRole("link").count(), 0);

  // On a small screen it fits. Who does not run the gateway sees those of the own namespace.
  await page.setViewportSize({ width: 390, height: 800 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "it is wider than the screen");
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.getByRole("button", { name: "Sign out" }).click();
  await signIn(tenant);
  await remote("office").getByRole("link", { name: "deals/Subscriptions/all", exact: true }).waitFor();
  assert.equal(await remote("hq").count(), 0);
  assert.equal(await link.count(), 1);
  assert.deepEqual(faults, []);
}, { viewport: { width: 1280, height: 800 }, locale: "en-GB", timezoneId: "UTC" });
console.log("told");
