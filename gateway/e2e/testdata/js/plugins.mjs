// The console's page of plugins: what they are, what they do, and that they can
// be replaced.
import assert from "node:assert/strict";
import { accessible, faultsOf } from "./accessible.mjs";
import { browse } from "./browser.mjs";

const { STORY_CONNECTION: connection, STORY_LISTENER: listener, STORY_GATEWAY: gateway } = process.env;

await browse(async (page) => {
  const faults = await faultsOf(page, gateway), asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  const button = (name) => page.getByRole("button", { name, exact: true });
  const link = page.getByRole("navigation").getByRole("link", { name: "Plugins" });
  const plugin = (name) => page.getByRole("region", { name, exact: true });
  const dialog = page.getByRole("dialog");
  const fact = (name, text) => plugin("geo").locator("dl > div").filter({ hasText: name }).locator("dd").filter({ hasText: text });
  const signIn = async (secret) => {
    await page.getByLabel("Connection string or token").fill(secret);
    await page.keyboard.press("Enter");
  };
  const send = (...sent) => page.evaluate(async ([secret, ...sent]) => {
    const { Crosstown } = await import("/client/crosstown.js");
    const client = new Crosstown(location.origin, { connectionString: secret });
    await client.send(...sent);
    await client.close();
  }, [connection, ...sent]);
  const from = (country) => ({ text: "order", properties: { country } });

  await page.goto(`http://${gateway}/`);
  await signIn(connection);
  await link.click();
  await page.getByRole("heading", { name: "Plugins", exact: true }).waitFor();
  assert.equal(await link.getAttribute("aria-current"), "page");
  await plugin("geo").getByText("running", { exact: true }).waitFor();
  await fact("Program", "geo-router 1.0.0").waitFor();
  await fact("Serves", "routes").waitFor();
  await fact("Started", /^1 time$/).waitFor();
  await plugin("gone").getByText("off", { exact: true }).waitFor();
  await plugin("gone").getByText("/no/such/program: no such file").waitFor();

  // What it does is shown as it happens.
  await send("orders", [from("de"), from("jp"), from("us"), "an order"]);
  await send("letters", { text: "order", broker: { To: "orders-eu" } });
  await page.getByRole("row", { name: "orders ingress 4 0 3 0 1 0 0 0" }).waitFor();
  await fact("Messages", /^4$/).waitFor();
  await plugin("Without a plugin").getByRole("row", { name: "letters to 1 0 1 0 0 0 0 0" }).waitFor();
  await accessible(page, "plugins");

  // It is replaced, unless the new one is not what it should be.
  const before = await fact("Process", /\d/).textContent();
  await button("Reload geo").click();
  await accessible(page, "reloading");
  await dialog.getByLabel("Checksum").fill("0".repeat(64));
  await dialog.getByRole("button", { name: "Reload" }).click();
  await dialog.getByRole("alert").getByText("checksum").waitFor();
  await dialog.getByLabel("Checksum").fill("");
  await dialog.getByRole("button", { name: "Reload" }).click();
  await page.getByRole("status").getByText(/geo is reloaded: geo-router 1\.0\.0, process \d+\./).waitFor();
  await fact("Started", "2 times").waitFor();
  const after = await fact("Process", /\d/).textContent();
  assert.notEqual(after, before);
  await button("Reload gone").click();
  await dialog.getByRole("button", { name: "Reload" }).click();
  await dialog.getByRole("alert").getByText("not reloaded").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();

  // It is lost, and comes back.
  process.kill(Number(after), "SIGKILL");
  await fact("Started", "3 times").waitFor();
  await plugin("geo").getByText("running", { exact: true }).waitFor();
  await plugin("geo").getByText("Last problem:").waitFor();

  // A page that nobody looks at does not ask.
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.waitForTimeout(2000); // for what was asked before
  const sofar = asked.length;
  await page.waitForTimeout(2500);
  assert.deepEqual(asked.slice(sofar), []);
  const asks = page.waitForRequest(/plugins$/);
  await page.evaluate(() => {
    delete document.hidden;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await asks;

  // On a small screen it fits. Who may not Manage does not get there.
  await page.setViewportSize({ width: 390, height: 800 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "it is wider than the screen");
  await page.setViewportSize({ width: 1280, height: 800 });
  await button("Sign out").click();
  asked.length = 0;
  await signIn(listener);
  await page.getByRole("heading", { name: "Not with this key" }).waitFor();
  assert.equal(await link.count(), 0);
  assert.deepEqual(asked, []);
  assert.deepEqual(faults, ["400 /$crosstown/plugins/geo", "400 /$crosstown/plugins/gone"]);
}, { viewport: { width: 1280, height: 800 }, locale: "en-GB", timezoneId: "UTC" });
console.log("told");
