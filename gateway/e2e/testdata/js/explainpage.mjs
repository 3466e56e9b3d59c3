// The console tells what happened to a message, from entity to entity.
import assert from "node:assert/strict";
import { accessible, faultsOf } from "./accessible.mjs";
import { browse } from "./browser.mjs";

const { STORY_CONNECTION: connection, STORY_LISTENER: listener, STORY_GATEWAY: gateway, STORY_SCREENSHOTS: pictures } = process.env;

await browse(async (page) => {
  const faults = await faultsOf(page, gateway);
  const link = (name) => page.getByRole("link", { name });
  const main = page.getByRole("main"), told = page.locator("ol.story li");
  const signIn = async (secret) => {
    await page.getByLabel("Connection string or token").fill(secret);
    await page.keyboard.press("Enter");
  };
  const open = (name, tab) => page.goto(`http://${gateway}/#/entity/${encodeURIComponent(name)}/${tab}`);
  const happened = async (...wanted) => {
    for (const [i, text] of wanted.entries()) await told.nth(i).getByText(text).waitFor();
    assert.equal(await told.count(), wanted.length, (await told.allInnerTexts()).join("\n"));
  };
  /** Has a program do something meanwhile. */
  const program = (work) => page.evaluate(`(async () => {
    const { Crosstown } = await import("/client/crosstown.js");
    const bus = new Crosstown(location.origin, { connectionString: ${JSON.stringify(connection)} });
    await (${work})(bus);
    await bus.close();
  })()`);

  await page.goto(`http://${gateway}/`);
  await signIn(connection);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await program(async (bus) => {
    await bus.send("inbox", { text: "one", broker: { MessageId: "order/17 é" } });
    const feed = bus.receive("orders"), next = async () => (await feed.next()).value;
    await (await next()).abandon();
    await (await next()).deadLetter({ reason: "Unpaid", description: "The card was refused." });
    await feed.close();
    await bus.send("orders", { text: "anonymous" });
    await bus.send("events", { text: "large", broker: { MessageId: "e-1" }, properties: { amount: 200 } });
    await bus.send("events", { text: "small", broker: { MessageId: "e-2" }, properties: { amount: 2 } });
    await bus.send("quiet", { text: "psst", broker: { MessageId: "q-1" } });
  });

  // A dead letter tells how it came to be one, and its story leads back to where it was sent.
  await open("orders", "dead");
  await page.getByRole("button", { name: "Message 1", exact: true }).click();
  await link("What happened to it").click();
  await page.getByText("Message id order/17 é in orders").waitFor();
  await happened(/^Accepted as 1, forwarded from inbox$/, /^1 was delivered$/, /^1 was abandoned, failure 1$/, /^1 was delivered again, after 1 failure$/, /^1 was dead-lettered as 1$/);
  await told.nth(1).getByText(/^to RootManageSharedAccessKey at websocket 127\.0\.0\.1:\d+ Mozilla\S+, through \S+$/).waitFor();
  await told.nth(4).getByText("Unpaid").waitFor();
  await accessible(page, "a story");
  if (pictures) await page.screenshot({ path: `${pictures}/console-explain.png` });
  await link("inbox").last().click();
  await happened(/^Accepted as 1$/, /^1 was forwarded to orders$/);
  await told.nth(1).getByRole("link", { name: "orders" }).click();
  await happened(/^Accepted/, /delivered/, /abandoned/, /delivered/, /dead-lettered/);
  await page.goBack();
  await happened(/^Accepted as 1$/, /forwarded/);

  // A topic tells who got it by which rule; copies tell where they come from. One asks by an id.
  await open("events", "");
  await link("What happened").click();
  await page.getByRole("heading", { name: "Which one?" }).waitFor();
  await page.getByLabel("Message id").fill("e-1");
  await page.keyboard.press("Enter");
  await happened(/^Accepted as 1$/, /^Matched large of events\/Subscriptions\/eu$/);
  await told.nth(1).getByRole("link").click();
  await happened(/^Accepted as 1, a copy of what was sent to events$/);
  await told.nth(0).getByRole("link").click();
  await happened(/^Accepted/, /^Matched/);
  await page.getByLabel("Message id").fill("e-2");
  await page.keyboard.press("Enter");
  await happened(/^Accepted as 2$/, /^Matched by no rule/);
  await main.getByRole("heading", { name: "Did not match" }).waitFor();
  await main.getByText("no copy of the message is stored any more").waitFor();
  await accessible(page, "subscriptions that did not match");
  await page.getByLabel("Message id").fill("e-3");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "It has no events" }).waitFor();

  // It goes on while one looks; what has no id is found by its number.
  await open("orders", "story//2");
  await happened(/^Accepted as 2$/);
  await main.getByText(/^Number 2, message id [0-9a-f]{32} in orders$/).waitFor();
  await program(async (bus) => (await bus.receive("orders").next()).value.complete());
  await page.getByRole("button", { name: "Look again" }).click();
  await happened(/^Accepted as 2$/, /^2 was delivered/, /^2 was completed$/);

  // Where nothing is remembered, it says how to have that.
  await open("quiet", "messages");
  await page.getByRole("button", { name: "Message 1", exact: true }).click();
  await link("What happened to it").click();
  await page.getByRole("heading", { name: "This entity keeps no history" }).waitFor();
  await main.getByText("- entity: quiet").waitFor();
  await accessible(page, "where nothing is remembered");

  // On a small screen it fits. Who may not Manage the entity is not offered it.
  await page.setViewportSize({ width: 390, height: 800 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "it is wider than the screen");
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.getByRole("button", { name: "Sign out" }).click();
  await signIn(listener);
  await page.getByRole("button", { name: "Message 1", exact: true }).waitFor();
  await page.getByRole("button", { name: "Message 1", exact: true }).click();
  await page.getByRole("region", { name: "Message 1" }).waitFor();
  assert.equal(await link("What happened").count(), 0);
  assert.deepEqual(faults, ["404 /$crosstown/explain/quiet"]);
}, { viewport: { width: 1280, height: 800 }, locale: "en-GB", timezoneId: "UTC" });
console.log("told");
