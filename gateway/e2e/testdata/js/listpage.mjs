// The console's list of messages: long ones, both ends, filters, files, and what is done with many.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { operate } from "./operator.mjs";

await operate(async ({ page, context, open, button, row, dialog, said, seen, client, phone, desktop, heading, signIn }) => {
  await client(async (bus) => {
    for (let i = 0; i < 3; i++) await bus.send("orders", Array.from({ length: 1000 }, (_, n) => ({
      broker: { MessageId: `order-${1000 * i + n + 1}`, Label: n % 2 ? "odd" : "even" }, properties: { region: n % 500 ? "eu" : "us" }, text: `{"order": ${1000 * i + n + 1}}`,
    })));
    await Promise.all(Array.from({ length: 40 }, (_, n) => bus.send("wide", { broker: { PartitionKey: `p${n}` }, text: `wide ${n}` })));
    await bus.send("failed", Array.from({ length: 230 }, (_, n) => `letter ${n}`));
    const feed = bus.receive("failed", { prefetch: 230 });
    for (let i = 0, settled = []; i < 230; i++) {
      settled.push((await feed.next()).value.deadLetter({ reason: "Tried" }));
      if (i === 229) await Promise.all(settled);
    }
    await feed.close();
  });
  const shown = (n) => page.getByText(`${n} shown`, { exact: true }).waitFor();
  const drawn = () => page.locator(".rows tr.pick").count();

  // Both ends, and a page of a thousand of which those in sight are drawn.
  await open("orders", "messages");
  await shown("50");
  await row(/order-1 even \{"order": 1\}/).waitFor();
  await page.getByLabel("Show").selectOption("1000");
  await shown("1,000");
  assert.ok((await drawn()) < 80, `${await drawn()} rows are drawn`);
  await page.locator(".rows").evaluate((e) => e.scrollTo(0, e.scrollHeight));
  await button("Message 1000").waitFor();
  await button("Last").click();
  await row(/order-2001 /).waitFor();
  await button("Show earlier").click();
  await shown("2,000");
  await row(/order-1001 /).waitFor();
  await page.getByLabel("Show").selectOption("50");
  await shown("50");
  await seen("a list of messages");

  // The newest first: from the end, above which there is nothing, and back to the first.
  const firstRow = () => page.locator(".rows tr.pick").first();
  await page.getByLabel("Order").selectOption("newest first");
  await shown("50");
  await firstRow().getByText("order-3000", { exact: true }).waitFor();
  await button("Show earlier").click();
  await shown("100");
  await firstRow().getByText("order-3000", { exact: true }).waitFor();
  await page.locator(".rows").evaluate((e) => e.scrollTo(0, e.scrollHeight));
  await row(/order-2901 /).waitFor();
  await page.locator(".rows").evaluate((e) => e.scrollTo(0, 0));
  await seen("the newest messages");
  await page.locator(".filter summary").click();
  await page.getByLabel("Property").fill("region = us");
  await button("Apply").click();
  await page.getByText("6 shown, 3,000 searched").waitFor();
  await firstRow().getByText("order-2501", { exact: true }).waitFor();
  await button("Clear").click();
  await page.locator(".filter summary").click();
  await page.getByLabel("From sequence number").fill("20");
  await button("Look again").click();
  await shown("20");
  await firstRow().getByText("order-20", { exact: true }).waitFor();
  await page.getByLabel("From sequence number").fill("");
  await page.getByLabel("Order").selectOption("oldest first");
  await row(/order-1 /).waitFor();
  await open("wide", "messages");
  await shown("40");
  await button("Last").click();
  await shown("40");

  // A filter by id, property, body and time; all of its parts must fit.
  await open("orders", "messages");
  await shown("50");
  const filter = async (label, text) => {
    if (!(await page.getByLabel(label).isVisible())) await page.locator(".filter summary").click();
    await page.getByLabel(label).fill(text);
    await button("Apply").click();
  };
  await filter("Property", "region = us");
  await page.getByText("6 shown, 3,000 searched").waitFor();
  await filter("Body", '"order": 1501');
  await page.getByText("1 shown, 3,000 searched").waitFor();
  await row(/order-1501 /).waitFor();
  await seen("a filter");
  await filter("Enqueued since", "2099-01-01T00:00:01");
  await heading("No message fits the filter").waitFor();
  await button("Clear").click();
  await filter("Message or correlation id", "ORDER-299");
  await page.getByText("11 shown, 3,000 searched").waitFor();

  // Those are downloaded, deleted, and uploaded again.
  await page.getByLabel("Choose all").check();
  const [download] = await Promise.all([page.waitForEvent("download"), button("Download 11").click()]);
  assert.equal(download.suggestedFilename(), "orders.jsonl");
  const file = "downloaded.jsonl";
  await download.saveAs(file);
  const lines = (await readFile(file, "utf8")).trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual([lines.length, lines[0].broker.MessageId, atob(lines[0].binary), lines[0].properties], [11, "order-299", '{"order": 299}', { region: "eu" }]);
  await button("Delete 11").click();
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await said("11 deleted.");
  await heading("No message fits the filter").waitFor();
  await button("Upload").click();
  await dialog.getByLabel("File").setInputFiles({ name: "wrong.jsonl", mimeType: "application/json", buffer: Buffer.from('{"broker": {}}\n{"colour": "red"}\n') });
  await dialog.getByRole("button", { name: "Upload" }).click();
  await dialog.getByRole("alert").getByText("Line 2 has the member colour").waitFor();
  await seen("an upload");
  await dialog.getByLabel("File").setInputFiles(file);
  await dialog.getByRole("button", { name: "Upload" }).click();
  await said("11 sent.");
  await page.getByText("11 shown, 3,000 searched").waitFor();
  await button("Clear").click();
  await shown("50");
  await page.locator(".filter summary").click();

  // Two are dead-lettered; the others are purged.
  await button("First").click();
  await shown("50");
  await page.getByLabel("Choose 1", { exact: true }).check();
  await page.getByLabel("Choose 2", { exact: true }).check();
  await phone();
  await seen("a list of messages on a phone");
  await desktop();
  await button("Dead-letter 2").click();
  await dialog.getByRole("button", { name: "Dead-letter" }).click();
  await said("2 dead-lettered.");
  await button("Purge").click();
  await dialog.getByRole("button", { name: "Delete all" }).click();
  await said("2,998 deleted.");
  await heading("No messages").waitFor();

  // A key that may only listen deletes what it has chosen, in the middle of others that stay as they are.
  await client((bus) => bus.send("orders", Array.from({ length: 20 }, (_, n) => `late ${n}`)));
  await button("Sign out").click();
  await signIn(process.env.STORY_LISTENER);
  await heading("This key may not list entities").waitFor();
  await open("orders", "messages");
  await shown("20");
  await row(/late 10/).getByRole("checkbox").check();
  await button("Delete 1").click();
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await said("1 deleted.");
  await shown("19");
  assert.equal(await row(/late 10/).count(), 0);
  assert.equal(await row(/late \d+ \S+ 0 Active/).count(), 19, "no other was delivered");
  await button("Sign out").click();
  await signIn();

  // All dead letters are resubmitted, those that are not shown included.
  await open("failed", "dead");
  await shown("50");
  await button("Resubmit all").click();
  await dialog.getByRole("button", { name: "Resubmit", exact: true }).click();
  await said(/^\d+ of 230 resubmitted/);
  await said("230 resubmitted.");
  await heading("No dead letters").waitFor();

  // A message is sent many times; a body in XML is indented, a dump is as wide as its place, and both are copied.
  await client((bus) => bus.create("queue", "letters"));
  await open("letters", "messages");
  await button("Send").click();
  await dialog.getByLabel("Kind").selectOption("Text");
  const xml = '<?xml version="1.0"?><order id="1"><!-- new --><lines><line sku="A-1"/><line sku="B-7">two <b>boxes</b></line></lines><note></note></order>';
  await dialog.getByLabel("Content", { exact: true }).fill(xml);
  await dialog.getByLabel("How many times").fill("250");
  await dialog.getByRole("button", { name: "Send" }).click();
  await said("Sent 250 times.");
  await page.getByLabel("Show").selectOption("250");
  await shown("250");
  await button("Message 1").click();
  const letter = page.getByRole("region", { name: "Message 1" }), indented = `<?xml version="1.0"?>
<order id="1">
  <!-- new -->
  <lines>
    <line sku="A-1"/>
    <line sku="B-7">two <b>boxes</b></line>
  </lines>
  <note></note>
</order>`;
  const body = (way) => letter.getByRole("group", { name: `Body as ${way}` });
  assert.equal(await body("XML").textContent(), indented);
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await letter.getByRole("button", { name: "Copy the body" }).click();
  await said("It is in the clipboard.");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), indented);
  await seen("a body in XML");
  await letter.getByRole("button", { name: "Text", exact: true }).click();
  assert.equal(await body("Text").textContent(), xml);
  await letter.getByRole("button", { name: "Hex", exact: true }).click();
  for (const [width, bytes] of [[1280, 8], [2200, 16], [360, 4]]) { // of the window, and of a line
    await page.setViewportSize({ width, height: 800 });
    const digits = Array.from(xml.slice(0, bytes), (c) => c.charCodeAt(0).toString(16)).join(" ");
    await page.waitForFunction((line) => document.querySelector(".body pre").textContent.startsWith(line), `000000  ${digits}  ${xml.slice(0, bytes)}\n`);
    const [high, lines] = await body("Hex").evaluate((e) => { // a line that is too long would be two
      const range = document.createRange();
      range.selectNodeContents(e);
      return [new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size, e.textContent.split("\n").length];
    });
    assert.equal(high, lines, `a dump at ${width} has lines that are wider than their place`);
    await seen(`a dump at ${width}`);
  }
  await desktop();
  const pretty = await page.evaluate(async () => {
    const { waysToShow } = await import(document.querySelector("script[type=module]").src.replace(/[^/]*$/, "body.js"));
    return ["<a>", "<a></b>", "<p>a<br>b</p>", "<a/> tail", "<a b='>'>x</a>", "<", " <a>\n <b/>\n</a>\n"].map((text) => waysToShow({ binary: new TextEncoder().encode(text) }).XML ?? null);
  });
  assert.deepEqual(pretty, [null, null, null, null, "<a b='>'>x</a>", null, "<a>\n  <b/>\n</a>"]);

  // A page of large messages ends early, in both directions.
  await client(async (bus) => {
    await bus.create("queue", "bulky", { MaxMessageSizeInKilobytes: 5120 });
    for (let i = 0; i < 3; i++) await bus.send("bulky", new Uint8Array(9 << 19).fill(65 + i));
  });
  await open("bulky", "messages");
  await shown("2");
  await row(/AAAAAA/).waitFor();
  await button("Show more").click();
  await shown("3");
  await button("Last").click();
  await row(/CCCCCC/).waitFor();
  assert.equal(await row(/AAAAAA/).count(), 0);
});
