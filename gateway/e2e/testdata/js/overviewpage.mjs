// The console's overview: what is in subscriptions counts, and what needs attention is said.
import assert from "node:assert/strict";
import { operate } from "./operator.mjs";

await operate(async ({ page, home, open, link, row, seen, client, phone, desktop, heading }) => {
  await client(async (bus) => {
    await bus.send("events", ["one", "two", "three"]);
    const [first, second] = await bus.take("events/Subscriptions/eu", 2);
    await first.deadLetter({ reason: "Tried" });
    await second.defer();
    for (let i = 0; i < 4; i++) await bus.send("small", new Uint8Array(240_000));
    await bus.update("off", { Status: "SendDisabled" });
    await bus.delete("archive");
    await bus.send("outbox", "nowhere to go");
    await bus.send("guarded", ["1", "2", "3", "4", "5"]);
    for (const message of await bus.take("guarded", 5)) await message.abandon();
  });
  await page.evaluate(async (secret) => {
    const { Crosstown } = await import("/client/crosstown.js");
    const bus = globalThis.bus = new Crosstown(location.origin, { connectionString: secret });
    globalThis.feed = bus.receive("events/Subscriptions/eu", { prefetch: 1 });
    await globalThis.feed.ready;
  }, process.env.STORY_CONNECTION);

  await home();
  const tile = (name) => page.getByRole("term").filter({ hasText: name }).locator("xpath=following-sibling::dd");
  const says = async (name, text) => {
    const found = row(name).filter({ hasText: text });
    await found.first().waitFor();
    return found.first();
  };
  await says(/eu /, "1 dead letter");
  assert.equal(await tile("Subscriptions").textContent(), "2");
  assert.equal(await tile("Dead letters").textContent(), "2");
  await says(/^outbox /, "1 transfer dead letter");
  await says(/^small /, "% full");
  await says(/^off /, "SendDisabled");
  await says(/^hq /, "remote is away since");
  await says(/^gone /, "plugin is");
  await says(/^guarded /, "circuit breaker is open");
  await link(/^events/).getByTitle("dead letters of its subscriptions").waitFor();
  await seen("overview");
  await phone();
  await seen("overview on a phone");
  await desktop();

  // It leads to where the dead letters are.
  await page.getByRole("table", { name: "Needs attention" }).getByRole("link", { name: "events/Subscriptions/eu" }).click();
  await heading("eu").waitFor();
  await page.getByText("1 shown").waitFor();

  // A queue or subscription tells what is locked and deferred, and its consumers.
  await open("events/Subscriptions/eu");
  await page.getByText("Maximum deliveries").waitFor();
  for (const [name, count] of [["Locked", "1"], ["Deferred", "1"], ["Consumers", "1"]]) assert.equal(await tile(name).textContent(), count, name);
  await open("events");
  await row(/^eu .* 2 1 1 1$/).waitFor();
  await page.evaluate(() => globalThis.bus.close());

  // A circuit breaker can be closed.
  await open("guarded");
  await page.getByText("circuit breaker open", { exact: true }).waitFor();
  await seen("an open circuit breaker");
  await page.getByRole("button", { name: "Close circuit breaker" }).click();
  await page.getByText("circuit breaker closed", { exact: true }).waitFor();
});
