// The console's table of all entities, with a thousand of them.
import assert from "node:assert/strict";
import { operate } from "./operator.mjs";

await operate(async ({ page, home, open, row, heading, seen, client, phone, desktop }) => {
  await client(async (bus) => {
    for (const [name, n] of [["queue-0500", 300], ["queue-0007", 20], ["queue-0123", 1]]) await bus.send(name, Array.from({ length: n }, () => "x"));
    for (let i = 0; i < 3; i++) await bus.send("news", "y");
    for (const m of await bus.take("news/Subscriptions/b", 2)) await m.deadLetter({ reason: "Tried" });
  });
  await page.evaluate(async (secret) => {
    const { Crosstown } = await import("/client/crosstown.js");
    globalThis.bus = new Crosstown(location.origin, { connectionString: secret });
    globalThis.feed = globalThis.bus.receive("queue-0900", { prefetch: 1 });
    await globalThis.feed.ready;
  }, process.env.STORY_CONNECTION);

  await home();
  await page.getByRole("link", { name: "All entities" }).click();
  await heading("Entities").first().waitFor();
  await page.getByText("1,000 of 1,000").waitFor();
  const names = async () => (await page.locator(".rows tbody a[title]").allTextContents());
  const drawn = (await names()).length;
  assert.ok(drawn > 10 && drawn < 80, `${drawn} rows are drawn`);
  assert.deepEqual((await names()).slice(0, 4), ["news", "news/Subscriptions/a", "news/Subscriptions/b", "queue-0001"]);
  const sort = (by) => page.getByRole("columnheader", { name: by }).getByRole("button").click();
  const first = (name) => page.waitForFunction((name) => document.querySelector(".rows tbody a[title]")?.title === name, name);
  await sort("Active");
  await first("queue-0500");
  assert.deepEqual((await names()).slice(0, 5), ["queue-0500", "queue-0007", "news/Subscriptions/a", "news/Subscriptions/b", "queue-0123"]);
  assert.equal(await page.getByRole("columnheader", { name: "Active" }).getAttribute("aria-sort"), "descending");
  await seen("a thousand entities");
  await sort("Active");
  await page.locator(".rows").evaluate((e) => e.scrollTo(0, e.scrollHeight));
  await row(/^news – – – – –|^news \S+ – – – –/).waitFor(); // topics hold none: they are last
  await page.locator(".rows").evaluate((e) => e.scrollTo(0, 0));
  await sort("Dead letters");
  await first("news/Subscriptions/b");
  await sort("Consumers");
  await first("queue-0900");
  await sort("In");
  await client(async (bus) => { for (const end = Date.now() + 4000; Date.now() < end; await new Promise((r) => setTimeout(r, 100))) await bus.send("queue-0700", ["x", "x", "x"]); });
  await first("queue-0700");
  await row(/^queue-0700 \d/).waitFor();
  await page.getByLabel("Show names that contain").fill("QUEUE-00 7");
  await page.getByText(/^\d+ of 1,000$/).waitFor();
  assert.ok((await names()).includes("queue-0007") && !(await names()).includes("queue-0500"));
  await phone();
  await seen("a thousand entities on a phone");
  await desktop();

  // From there to the dead letters, and back to the same order.
  await page.getByLabel("Show names that contain").fill("news");
  await row(/^news\/Subscriptions\/b /).getByRole("link", { name: "2" }).click();
  await page.getByText("2 shown").waitFor();
  await home("entities");
  await page.getByText("1,000 of 1,000").waitFor();
  assert.equal(await page.getByRole("columnheader", { name: "In" }).getAttribute("aria-sort"), "descending");
  await page.evaluate(() => globalThis.bus.close());
});
