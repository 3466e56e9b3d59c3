// The console's page of namespaces: for who runs the gateway, and nobody else.
import assert from "node:assert/strict";
import { ServiceBusClient } from "@azure/service-bus";
import { accessible, faultsOf } from "./accessible.mjs";
import { browse, said as saidOn } from "./browser.mjs";

const { STORY_CONNECTION: connection, STORY_GATEWAY: gateway, STORY_SCREENSHOTS: pictures } = process.env;

await browse(async (page, context) => {
  const faults = await faultsOf(page, gateway), asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: `http://${gateway}` });
  const button = (name, exact = true) => page.getByRole("button", { name, exact });
  const link = page.getByRole("navigation").getByRole("link", { name: "Namespaces" });
  const dialog = page.getByRole("dialog"), one = (name) => page.getByRole("region", { name, exact: true });
  const row = (name) => page.getByRole("row", { name });
  const here = () => page.getByTitle("Namespace", { exact: true }).textContent();
  const said = (text) => saidOn(page, text);
  const signIn = async (secret) => {
    await page.getByLabel("Connection string or token").fill(secret);
    await page.keyboard.press("Enter");
  };

  await page.goto(`http://${gateway}/`);
  await signIn(connection);
  await link.click();
  await row(/^sbemulatorns the gateway's own you are here/).waitFor();
  await row(/^rented configured/).waitFor();
  await accessible(page, "namespaces");

  // One is made; what it is reached by is shown once, to be copied.
  await button("New namespace").click();
  await accessible(page, "a new namespace");
  await dialog.getByLabel("Name").fill("in voices");
  await dialog.getByRole("button", { name: "Create namespace" }).click();
  await dialog.getByRole("alert").getByText("in voices").waitFor();
  await dialog.getByLabel("Name").fill("invoices");
  await dialog.getByText("Hosts and quotas").click();
  await dialog.getByLabel("Hosts").fill("Invoices.example.com");
  await dialog.getByLabel("Entities at most").fill("2");
  await dialog.getByRole("button", { name: "Create namespace" }).click();
  await page.getByRole("heading", { name: "invoices is ready" }).waitFor();
  await accessible(page, "connection strings");
  await button("Copy the connection string").click();
  await said("It is in the clipboard.");
  const invoices = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(invoices, /^Endpoint=sb:\/\/localhost:\d+;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=[^;]{44};UseDevelopmentEmulator=true$/);
  assert.match(await dialog.getByLabel("Connection string by host", { exact: true }).inputValue(), /^Endpoint=sb:\/\/invoices\.example\.com:\d+;/);
  await page.keyboard.press("Escape");
  await row(/^invoices invoices\.example\.com 0 of 2 0 0 /).waitFor();
  assert.ok(!(await page.content()).includes(/SharedAccessKey=([^;]+)/.exec(invoices)[1]), "the key is not on the page any more");

  // A program works in it, and the page says so.
  const bus = new ServiceBusClient(invoices);
  await page.evaluate(async (secret) => {
    const { Crosstown } = await import("/client/crosstown.js");
    const client = new Crosstown(location.origin, { connectionString: secret });
    await client.create("queue", "bills");
    await client.send("bills", ["one", "two"]);
    await client.close();
  }, invoices);
  await row(/^invoices invoices\.example\.com 1 of 2 0 1,024 /).waitFor();
  const receiver = bus.createReceiver("bills");
  const [bill] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 300_000 });
  assert.equal(bill.body.toString(), "one");
  await row(/^invoices invoices\.example\.com 1 of 2 1 1,024 /).waitFor();
  if (pictures) await page.screenshot({ path: `${pictures}/console-namespaces.png` });

  // It is changed, and emptied, while links stay open.
  await button("Change").click();
  await dialog.getByLabel("Maximum connections").fill("50");
  await dialog.getByRole("button", { name: "Save" }).click();
  await row(/^invoices invoices\.example\.com 1 of 2 1 of 50 1,024 /).waitFor();
  await button("Reset").click();
  await dialog.getByText("Every message in it is deleted").waitFor();
  await accessible(page, "resetting");
  await dialog.getByRole("button", { name: "Delete all messages" }).click();
  await said("invoices is empty.");
  await bus.createSender("bills").sendMessages({ body: "three" });
  assert.equal((await receiver.receiveMessages(1, { maxWaitTimeInMs: 300_000 }))[0].body, "three");

  // Its key is rotated: the old one stays valid.
  await button("Rotate the keys of RootManageSharedAccessKey").click();
  await dialog.getByText("stays valid").waitFor();
  await dialog.getByRole("button", { name: "Rotate" }).click();
  await page.getByRole("heading", { name: "New key of RootManageSharedAccessKey in invoices" }).waitFor();
  const rotated = await dialog.getByLabel("Connection string", { exact: true }).inputValue();
  assert.notEqual(rotated, invoices);
  await page.keyboard.press("Escape");

  // The configured one is as its file says; what is its own is not shown.
  await page.getByRole("link", { name: "rented", exact: true }).click();
  await one("rented").getByText("in the gateway's configuration").waitFor();
  assert.equal(await button("Delete").count() + (await button("Change").count()), 0);

  // On a small screen it fits.
  await page.setViewportSize({ width: 390, height: 800 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "it is wider than the screen");
  await page.setViewportSize({ width: 1280, height: 800 });

  // Who manages another namespace sees that one alone, with either key, and asks
  // nothing but for its remotes, its webhooks, its schedules and its status.
  for (const secret of [invoices, rotated]) {
    await button("Sign out").click();
    asked.length = 0;
    await signIn(secret);
    await page.getByRole("heading", { name: "Not with this key" }).waitFor();
    assert.equal(await here(), "invoices");
    assert.equal(await link.count(), 0);
    await page.getByRole("link", { name: "bills" }).waitFor();
    await page.getByRole("link", { name: "Connected clients" }).click();
    await page.getByText("this page").waitFor();
    assert.equal(await page.getByRole("cell", { name: "sbemulatorns" }).count(), 0);
    assert.deepEqual([...new Set(asked)].filter((path) => path.includes("$crosstown/") && !path.includes("console")).sort(), ["/$crosstown/hooks", "/$crosstown/pushes", "/$crosstown/remotes", "/$crosstown/schedules", "/$crosstown/status"]);
    await page.goto(`http://${gateway}/#/namespaces`);
  }

  // It is deleted by who types its name, and its clients are told.
  await bus.close();
  const lost = page.evaluate(async (secret) => {
    const { Crosstown } = await import("/client/crosstown.js");
    const client = new Crosstown(location.origin, { connectionString: secret });
    return new Promise((resolve) => client.on("close", ({ code, error }) => resolve(`${code} ${error.message}`)));
  }, rotated);
  await button("Sign out").click();
  await signIn(connection);
  await page.getByRole("link", { name: "invoices", exact: true }).click();
  await row(/^invoices invoices\.example\.com 1 of 2 1 of 50 1,024 /).waitFor();
  await button("Delete").click();
  await accessible(page, "deleting");
  await dialog.getByLabel("Name of the namespace, to confirm").fill("invoice");
  await dialog.getByRole("button", { name: "Delete namespace" }).click();
  await dialog.getByRole("alert").getByText("Type invoices.").waitFor();
  await dialog.getByLabel("Name of the namespace, to confirm").fill("invoices");
  await dialog.getByRole("button", { name: "Delete namespace" }).click();
  await said("invoices is deleted.");
  await row(/^rented/).waitFor();
  assert.equal(await row(/^invoices/).count(), 0);
  assert.equal(await lost, "4404 The namespace 'invoices' was deleted.");

  // Of many the first are drawn, and the others found.
  await page.evaluate(async (secret) => {
    const { Crosstown } = await import("/client/crosstown.js");
    const client = new Crosstown(location.origin, { connectionString: secret });
    for (let i = 100; i < 220; i++) await client.fetch(`/$crosstown/namespaces/many-${i}`, { method: "PUT" });
    await client.close();
  }, connection);
  await page.getByText("100 of 122 shown").waitFor();
  assert.equal(await row(/^many-219/).count(), 0);
  await page.getByLabel("Search namespaces").fill("Y-219");
  await row(/^many-219 /).waitFor();
  await page.getByText("1 of 122 shown").waitFor();
  assert.deepEqual(faults, ["400 /$crosstown/namespaces/in voices"]);
}, { viewport: { width: 1280, height: 800 }, locale: "en-GB", timezoneId: "UTC" });
console.log("told");
