// The console's search: it knows every queue, topic and subscription, and is used with the keyboard alone.
import assert from "node:assert/strict";
import { operate } from "./operator.mjs";

await operate(async ({ page, home, heading, seen, client, phone, desktop }) => {
  const field = page.getByRole("combobox", { name: "Search queues, topics and subscriptions" });
  const hits = page.getByRole("listbox").getByRole("option"), chosen = page.getByRole("listbox").getByRole("option", { selected: true });
  await client(async (bus) => {
    for (let i = 100; i < 250; i++) {
      await bus.create("topic", `region/${i}`);
      await bus.create("subscription", `region/${i}/Subscriptions/${i === 249 ? "needle" : "all"}`);
    }
    for (const name of ["orders", "orders/eu", "store/orders"]) await bus.create("queue", name);
  });
  await home("connections");
  await home();
  await page.getByRole("link", { name: /^region\/100/ }).waitFor();

  // A slash leads there from anywhere; the first hit is chosen, and Enter opens it.
  await page.keyboard.press("/");
  await page.keyboard.type("orders");
  await hits.nth(2).waitFor();
  assert.deepEqual(await hits.locator(".name").allTextContents(), ["orders", "orders/eu", "store/orders"]);
  assert.match(await chosen.textContent(), /^ordersqueue/);
  await seen("a search");
  await page.keyboard.press("ArrowDown");
  assert.match(await chosen.textContent(), /^orders\/eu/);
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowUp");
  assert.match(await chosen.textContent(), /^store\/orders/);
  await page.keyboard.press("Enter");
  await heading("store/orders").waitFor();
  assert.equal(await field.inputValue(), "");

  // A subscription of the last topic of many, by two words.
  await page.keyboard.press("/");
  await page.keyboard.type("249 NEEDLE");
  await page.getByText("region/249/Subscriptions/needle").waitFor();
  await page.keyboard.press("Enter");
  await heading("needle").waitFor();

  // What is typed into a field is no search, and Escape leaves it.
  await page.keyboard.press("/");
  await page.keyboard.type("nothing has/that");
  assert.equal(await field.inputValue(), "nothing has/that");
  await page.getByText("No entity has that name.", { exact: true }).waitFor();
  await page.keyboard.press("Enter");
  await heading("needle").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  assert.equal(await field.inputValue(), "");

  // On a phone, it is on every page.
  await phone();
  await field.fill("region/1");
  await page.getByText("50 of 200 are shown.").waitFor();
  await seen("a search on a phone");
  await hits.filter({ hasText: "region/107" }).first().click();
  await heading("region/107").waitFor();
  await desktop();
});
