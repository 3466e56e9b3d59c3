// The console's lists of messages by state: the gateway finds what is scheduled or deferred behind any
// number of other messages.
import assert from "node:assert/strict";
import { operate } from "./operator.mjs";

await operate(async ({ page, open, button, heading, row, said, seen, client, phone, link, dialog }) => {
  await client(async (bus) => {
    for (let i = 0; i < 2; i++) await bus.send("orders", Array.from({ length: 1500 }, (_, n) => `order ${1500 * i + n}`));
    const at = new Date(Date.now() + 3_600_000);
    await bus.send("orders", Array.from({ length: 25 }, (_, n) => ({ broker: { Label: `reminder ${n}`, ScheduledEnqueueTimeUtc: at }, text: "later" })));
    await bus.send("orders", "aside");
    const [first] = await bus.take("orders", 1);
    await first.defer();
    await bus.delete("archive");
    await bus.send("outbox", "nowhere to go");
  });

  // Scheduled messages behind three thousand active ones.
  await open("orders", "scheduled");
  await page.getByText("25 shown").waitFor();
  await row(/reminder 0/).waitFor();
  await page.locator(".rows").evaluate((e) => e.scrollTo(0, e.scrollHeight));
  await row(/reminder 24/).waitFor();
  await seen("scheduled messages");

  // One is moved to another time, and then delivered.
  await row(/reminder 24/).getByRole("button").click();
  await button("Reschedule").click();
  await dialog.getByLabel("Becomes active").fill("2100-01-01T00:00");
  await dialog.getByRole("button", { name: "Reschedule" }).click();
  await said("1 rescheduled.");
  await button("Make available").click();
  await said("1 available now.");
  await page.getByText("24 shown").waitFor();
  await page.getByLabel("Choose all").check();
  await button("Cancel 24").click();
  await dialog.getByRole("button", { name: "Cancel delivery" }).click();
  await heading("Nothing is scheduled").waitFor();

  // A deferred one, and active ones alone.
  await open("orders", "messages");
  await page.getByLabel("State").selectOption("Deferred");
  await page.getByText("1 shown").waitFor();
  await button("Message 1").click();
  await button("Make available").click();
  await said("1 available now.");
  await client(async (bus) => {
    const [first] = await bus.take("orders", 1); // put back in its place
    await first.defer();
  });
  await page.getByLabel("State").selectOption("Active");
  await button("Message 2").waitFor();
  assert.equal(await button("Message 1").count(), 0);

  // What cannot be forwarded is a dead letter of the transfer.
  await open("outbox");
  await link(/^Transfer dead letters/).click();
  await button("Message 1").click();
  await page.getByText("nowhere to go").first().waitFor();
  assert.equal(await page.getByText("aka.ms").count(), 1, "in the property, which is as it came, and not in the note");
  await seen("transfer dead letters");
  await phone();
  await seen("transfer dead letters on a phone");
  await page.getByRole("region", { name: "Message 1" }).getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await said("1 deleted.");
  await heading("No transfer dead letters").waitFor();
});
