// The console in a namespace for tests: its clock is frozen and moved, and operations of its clients go
// wrong by rules.
import assert from "node:assert/strict";
import { operate } from "./operator.mjs";

await operate(async ({ page, open, home, button, link, row, dialog, said, seen, client, phone, desktop, signIn, heading }) => {
  // The gateway's own namespace has the machine's time.
  await link("Namespaces").click();
  assert.equal(await link("Time and faults").count(), 0);
  await button("New namespace").click();
  await dialog.getByLabel("Name").fill("suite-17");
  await dialog.getByText("For tests").click();
  await dialog.getByLabel("Virtual time").check();
  await dialog.getByLabel("Faults").check();
  await dialog.getByRole("button", { name: "Create namespace" }).click();
  const connection = await dialog.getByLabel("Connection string", { exact: true }).inputValue();
  await page.keyboard.press("Escape");

  // An operator sees its clock and its rules.
  await page.getByRole("region", { name: "Clock" }).getByText("running").waitFor();
  await page.getByRole("region", { name: "Faults" }).getByText("No faults").waitFor();
  await button("Freeze").click();
  await page.getByText("frozen", { exact: true }).waitFor();
  await seen("a namespace for tests");
  await button("Sign out").click();

  // So does its user.
  await signIn(connection);
  await page.getByText("time is frozen").click();
  await heading("Time and faults").waitFor();
  await page.evaluate(async (secret) => {
    const { Crosstown } = await import("/client/crosstown.js");
    const bus = globalThis.bus = new Crosstown(location.origin, { connectionString: secret });
    await bus.create("queue", "orders", { LockDuration: "PT1M" });
  }, connection);
  await page.getByLabel("Set to").fill("2030-02-28T23:58");
  await button("Set").click();
  await said("The time is set");
  await page.getByText("28 Feb 2030 23:58:00.000").waitFor();
  await page.evaluate(() => globalThis.bus.send("orders", [{ broker: { ScheduledEnqueueTimeUtc: new Date("2030-03-01T00:00:00Z") }, text: "later" }, { text: "now" }]));

  // Time passes, and what was scheduled is due.
  await page.getByLabel("Advance by").fill("2 min");
  await button("Advance").click();
  await said("The time is moved");
  await page.getByText("1 Mar 2030 00:00:00.000").waitFor();
  await page.getByLabel("Advance by").fill("-1 s");
  await button("Advance").click();
  await page.getByText("28 Feb 2030 23:59:59.000").waitFor();
  await page.getByLabel("Advance by").fill("soon");
  await button("Advance").click();
  await page.getByRole("alert").getByText("“soon” is not a duration").waitFor();
  await open("orders", "messages");
  await page.getByText("2 shown").waitFor();
  assert.equal(await page.getByRole("cell", { name: "Active", exact: true }).count(), 2);

  // A lock is shown by the time of the namespace.
  await button("Receive").click();
  await dialog.getByRole("button", { name: "Receive", exact: true }).click();
  await page.getByRole("cell", { name: "1 min 0 s" }).waitFor();
  await button("Abandon").click();
  await said("back in the queue");

  // A rule is added, met, removed.
  await home("testing");
  await button("Add rule").click();
  await dialog.getByLabel("Entity", { exact: true }).fill("orders");
  await dialog.getByLabel("Code").fill("quota-exceeded");
  await dialog.getByLabel("How many").fill("2");
  await dialog.getByLabel("Delay", { exact: true }).fill("now");
  await dialog.getByRole("button", { name: "Add rule" }).click();
  await dialog.getByRole("alert").getByText("“now” is not a duration").waitFor();
  await dialog.getByLabel("Delay", { exact: true }).fill("");
  await dialog.getByLabel("Effect", { exact: true }).selectOption("reorder");
  await dialog.getByRole("button", { name: "Add rule" }).click();
  await dialog.getByRole("alert").getByText("is not possible for the operation send").waitFor();
  await dialog.getByLabel("Effect", { exact: true }).selectOption("fail");
  await seen("a new fault rule");
  await dialog.getByRole("button", { name: "Add rule" }).click();
  await row(/^fault-1 send orders fail, quota-exceeded 0 of 2 0 /).waitFor();
  assert.equal(await page.evaluate(() => globalThis.bus.send("orders", "x").then(() => "sent", (e) => e.code)), "quota_exceeded");
  await row(/^fault-1 send orders fail, quota-exceeded 1 of 2 1 /).waitFor();
  await button("Add rule").click();
  await dialog.getByLabel("Operation", { exact: true }).selectOption("deliver");
  await dialog.getByLabel("Effect", { exact: true }).selectOption("drop-connection");
  await dialog.getByText("More").click();
  await dialog.getByLabel("Properties of the message").fill("colour=red");
  await dialog.getByRole("button", { name: "Add rule" }).click();
  await row(/^fault-2 deliver any entity, colour = red drop-connection 0 of 1 0 /).waitFor();
  await seen("time and faults");
  await phone();
  await seen("time and faults on a phone");
  await desktop();
  await button("Remove rule fault-1").click();
  await row(/^fault-1 /).waitFor({ state: "detached" });
  await button("Remove all").click();
  await dialog.getByRole("button", { name: "Remove all" }).click();
  await heading("No faults").waitFor();
  await button("Resume").click();
  await page.getByText("running").waitFor();
  await page.evaluate(() => globalThis.bus.close());
}, [/^400 \/\$crosstown\/faults$/]);
