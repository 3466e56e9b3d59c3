// The console's page of webhooks: where services post, and what the gateway posts.
import assert from "node:assert/strict";
import { operate } from "./operator.mjs";

await operate(async ({ page, link, row, seen, client, phone, desktop, heading, button, signIn }) => {
  await client((bus) => bus.send("orders", "pay"));
  await link("Webhooks").click();
  await row(/^shop .*\/\$crosstown\/hooks\/shop events a secret in the address X-Event/).waitFor();
  await row(/^till .*\/\$crosstown\/hooks\/till inbox rented /).waitFor();
  await row(/^partner orders http:\/\/127\.0\.0\.1:\d+\/in 0 \d [1-9]\d* 0 \d\d:\d\d:\d\d\.\d\d\d: .*refused/).waitFor();
  assert.ok(!(await page.content()).includes("of-the-shop"), "secrets are not told");
  await seen("webhooks");
  await phone();
  await seen("webhooks on a phone");
  await desktop();
  await link("events").first().click();
  await heading("events").waitFor();

  // A manager of another namespace sees those of that one.
  await button("Sign out").click();
  await signIn(process.env.STORY_TENANT);
  await link("Webhooks").click();
  await row(/^till /).waitFor();
  assert.equal(await row(/^(shop|partner) /).count(), 0);
});
