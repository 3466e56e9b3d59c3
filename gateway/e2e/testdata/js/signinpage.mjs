// Signing in to the console, on small screens too; what a tab remembers, and the zone of all times.
import assert from "node:assert/strict";
import { accessible } from "./accessible.mjs";
import { operate } from "./operator.mjs";

await operate(async ({ page, context, gateway, connection, open, button, heading, row, seen, client, phone, desktop, signIn }) => {
  const stored = () => page.evaluate(() => JSON.stringify({ ...sessionStorage }) + JSON.stringify({ ...localStorage }));
  assert.equal(await stored(), "{}{}", "nothing is kept unless the user wants it");

  // The sign-in fits the smallest phones, and fails with a reason.
  await button("Sign out").click();
  for (const width of [390, 320]) {
    await phone(width);
    await page.getByLabel("Connection string or token").waitFor();
    await seen(`signing in on a phone of ${width}`);
    const [left, right] = await page.evaluate(() => [...document.querySelectorAll(".signin main, .signin main *")].map((e) => e.getBoundingClientRect()).reduce(([l, r], b) => [Math.min(l, b.left), Math.max(r, b.right)], [Infinity, 0]));
    assert.ok(left >= 0 && right <= width, `it reaches from ${left} to ${right} of ${width}`);
  }
  await desktop();

  // The tab remembers what it is told to remember, until the user signs out.
  await page.getByLabel("Remember in this tab").check();
  await signIn();
  await heading("Overview").waitFor();
  await page.reload();
  await heading("Overview").waitFor();
  const other = await context.newPage();
  await other.goto(`http://${gateway}/`);
  await other.getByLabel("Connection string or token").waitFor();
  await other.close();
  await button("Sign out").click();
  assert.equal(await stored(), "{}{}");
  await page.reload();
  await page.getByLabel("Connection string or token").waitFor();

  // A key that is not valid any more is forgotten.
  await page.evaluate((secret) => sessionStorage.setItem("crosstown.secret", secret), connection.replace(/SharedAccessKey=[^;]*/, "SharedAccessKey=old"));
  await page.reload();
  await page.getByRole("alert").getByText("The gateway refuses this connection string or token").waitFor();
  await accessible(page, "a key that is not valid any more");
  assert.equal(await stored(), "{}{}");
  await signIn();
  await heading("Overview").waitFor();

  // Times have milliseconds and a zone that is always there; the zone is remembered, and holds for what is typed, too.
  const zone = page.getByLabel("Time zone");
  const due = new Date("2031-07-01T10:00:00.123Z");
  await client(async (bus, at) => {
    await bus.create("queue", "orders");
    await bus.send("orders", { broker: { ScheduledEnqueueTimeUtc: at }, text: "later" });
  }, due.toISOString());
  await open("orders", "scheduled");
  assert.equal(await zone.inputValue(), "Europe/Berlin");
  await row(/1 Jul 2031 12:00:00\.123/).waitFor();
  assert.equal(await zone.locator("option:checked").textContent(), "Europe/Berlin (local)");
  await page.getByRole("button", { name: "Message 1" }).click();
  await page.getByRole("row", { name: /^ScheduledEnqueueTimeUtc .*12:00:00\.123 local, Europe\/Berlin/ }).waitFor();
  await page.getByRole("button", { name: "Close message" }).click();
  await zone.selectOption("UTC");
  await row(/1 Jul 2031 10:00:00\.123/).waitFor();
  await button("Send").click();
  await page.getByRole("dialog").getByText("Broker properties").click();
  await page.getByLabel("Schedule for").fill("2031-07-01T11:00:05");
  await page.getByRole("dialog").getByText("UTC; empty sends now").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Send", exact: true }).click();
  await row(/1 Jul 2031 11:00:05\.000/).waitFor();
  await page.reload();
  await signIn();
  await row(/1 Jul 2031 11:00:05\.000/).waitFor();
  await zone.selectOption("Europe/Berlin");
  await row(/1 Jul 2031 13:00:05\.000/).waitFor();
  await page.locator(".filter summary").click();
  await page.getByLabel("Enqueued since").fill("2031-07-01T10:00:05");
  await page.locator(".filter small").filter({ hasText: "Europe/Berlin" }).first().waitFor();

  // On a phone, a message lies where it was tapped, and its end leads back there.
  for (const width of [390, 320]) {
    await phone(width);
    await page.getByRole("button", { name: /^Message / }).last().click();
    const detail = page.getByRole("region", { name: /^Message / });
    await detail.getByText("Broker properties").waitFor();
    const box = await detail.boundingBox();
    assert.deepEqual([box.x, box.y, box.width], [0, 0, width]);
    await seen(`a message on a phone of ${width}`);
    await page.keyboard.press("Escape");
    await detail.waitFor({ state: "detached" });
    await page.waitForFunction(() => /^Message \d+$/.test(document.activeElement.ariaLabel));
    await seen(`messages on a phone of ${width}`);
  }
}, [], { timezoneId: "Europe/Berlin" });
