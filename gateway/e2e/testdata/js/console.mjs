// The console, used as people use it: with the keyboard where that is the
// question, with the mouse elsewhere. Nothing may break its content policy or
// be written to the browser's console, and axe must find nothing serious.
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { ServiceBusClient } from "@azure/service-bus";
import { accessible as accessibleOn, faultsOf } from "./accessible.mjs";
import { browse, said as saidOn } from "./browser.mjs";

const { STORY_CONNECTION: connection, STORY_LISTENER: listener, STORY_GATEWAY: gateway, STORY_SCREENSHOTS: pictures } = process.env;
const orders = "store/orders", topic = "store/events", subscription = `${topic}/Subscriptions/eu`, carts = "store/carts", letters = "store/letters";

/** Programs at work, until they are stopped. */
function traffic(bus) {
  let over = false;
  const until = (work) => async () => { for (let i = 0; !over; i++) await work(i); };
  const orderly = bus.createSender(orders), eventful = bus.createSender(topic), receiver = bus.createReceiver(orders);
  const ticks = (n) => Array.from({ length: Math.round(n) }, () => ({ body: "tick", applicationProperties: { region: "eu", amount: 120 } }));
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const tasks = [
    until(async (i) => {
      await orderly.sendMessages(ticks(10 + 5 * Math.sin(i / 12)));
      if (i % 2) await eventful.sendMessages(ticks(6 + 3 * Math.sin(i / 9)));
      await pause(200);
    }),
    until(async (i) => {
      const messages = await receiver.receiveMessages(Math.round(10 + 5 * Math.sin(i / 12 - 1)), { maxWaitTimeInMs: 1000 });
      await Promise.all(messages.map((m) => receiver.completeMessage(m)));
      await pause(200);
    }),
  ].map((task) => task());
  return { stop: () => (over = true, Promise.all(tasks)) };
}

/** Accepts a session that the page gives back behind its dialog. */
async function whenFree(accept) {
  for (;;) {
    try {
      return await accept();
    } catch (err) {
      if (err.code !== "SessionCannotBeLocked") throw err;
    }
  }
}

await browse(async (page, context) => {
  const faults = await faultsOf(page, gateway), accessible = (where) => accessibleOn(page, where);

  const button = (name, exact = true) => page.getByRole("button", { name, exact });
  const link = (name) => page.getByRole("link", { name });
  const heading = (name) => page.getByRole("heading", { name, exact: true });
  const dialog = page.getByRole("dialog");
  const said = (text) => saidOn(page, text);
  const open = (name, tab = "") => page.goto(`http://${gateway}/#/entity/${encodeURIComponent(name)}${tab && `/${tab}`}`);
  const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());

  /** Goes on with Tab until the focus is at something with that name. */
  const tabTo = async (name) => {
    for (let i = 0; i < 80; i++) {
      const here = await page.evaluate(() => {
        const e = document.activeElement;
        return e?.ariaLabel || e?.labels?.[0]?.textContent || e?.textContent?.trim() || "";
      });
      if (here === name) return;
      await page.keyboard.press("Tab");
    }
    assert.fail(`Tab does not lead to ${name}`);
  };

  const picture = async (name, themes = ["light"]) => {
    if (!pictures) return;
    await page.locator(".notices p").first().waitFor({ state: "detached" });
    for (const colorScheme of themes) {
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(300); // charts are drawn anew
      await page.screenshot({ path: `${pictures}/${name}${colorScheme === "dark" ? "-dark" : ""}.png` });
    }
  };
  if (pictures) await mkdir(pictures, { recursive: true });

  const signIn = async (secret) => {
    await page.getByLabel("Connection string or token").fill(secret);
    await press("Enter");
  };

  // What does not let in is said; nothing is kept outside the page's memory.
  await page.goto(`http://${gateway}/`);
  await signIn("swordfish");
  await page.getByRole("alert").getByText("neither a connection string").waitFor();
  await signIn(connection.replace(/SharedAccessKey=[^;]*/, "SharedAccessKey=wrong"));
  await page.getByRole("alert").getByText("The gateway refuses this connection string or token").waitFor();
  await accessible("signing in");
  await signIn(connection);
  await heading("Overview").waitFor();
  await heading("It is quiet").waitFor();
  assert.equal(await page.getByTitle("Namespace", { exact: true }).textContent(), "sbemulatorns");
  assert.equal(await link("Plugins").count(), 0, "there are none here");

  // What people write for values and durations is what the gateway reads.
  assert.deepEqual(await page.evaluate(async () => {
    const near = (name) => import(new URL(name, document.querySelector("link[rel=icon]").href));
    const { toText, toValue, typeOf } = await near("values.js"), { duration, parseDuration } = await near("format.js");
    const values = {
      string: "a", long: "-9223372036854775808", double: "3", boolean: "false", timestamp: "2026-01-31T12:00:00.000Z", uuid: "00112233-4455-6677-8899-aabbccddeeff",
      binary: "AP8=", int: "-2147483648", short: "32767", byte: "-128", ulong: "18446744073709551615", uint: "4294967295", ushort: "65535", ubyte: "255",
      float: "1.5", decimal32: "00112233", decimal64: "0011223344556677", decimal128: "00112233445566770011223344556677", symbol: "s", char: "ü", null: "",
    };
    const refused = (type, text) => { try { toValue(type, text); } catch (e) { return /^“/.test(e.message); } return false; };
    return {
      values: Object.entries(values).filter(([type, text]) => typeOf(toValue(type, text)) !== type || toText(toValue(type, text)) !== text).map(([type]) => type),
      refused: [["int", "2147483648"], ["ubyte", "-1"], ["long", "1.5"], ["double", "x"], ["boolean", "yes"], ["uuid", "1"], ["binary", "%"], ["char", "ab"], ["timestamp", "soon"], ["decimal32", "1"]].filter(([type, text]) => !refused(type, text)),
      durations: ["90 s", "1h 30min", "14 d", "forever", "PT5M", "P1DT2H"].map((text) => duration(parseDuration(text))),
      shown: [duration("PT1M30S"), duration("P14D")],
    };
  }), { values: [], refused: [], durations: ["1 min 30 s", "1 h 30 min", "14 d", "forever", "5 min", "1 d 2 h"], shown: ["1 min 30 s", "14 d"] });

  // A queue, a message, looked at: with the keyboard alone.
  await tabTo("New queue or topic");
  await press("Enter");
  await dialog.waitFor();
  await tabTo("Name");
  await page.keyboard.type(orders);
  await press("Enter");
  await heading(orders).waitFor();
  await tabTo("Send");
  await press("Enter");
  await accessible("the dialog to send");
  await tabTo("Content");
  await page.keyboard.type('{"order": 1, "total": 12345678901234567890.50}');
  await tabTo("Add property");
  await press("Enter");
  await tabTo("Name of property 1");
  await page.keyboard.type("<b>big</b>"); // markup is text
  await tabTo("Type of <b>big</b>");
  await page.keyboard.type("long");
  await tabTo("Value of <b>big</b>");
  await page.keyboard.type("9007199254740993");
  await press("Enter");
  await said("Sent with number 1.");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Send", "the focus is where it was");
  await link(/^Messages/).focus();
  await press("Enter");
  await button("Message 1").focus();
  await press("Enter");
  const detail = page.getByRole("region", { name: "Message 1" });
  await detail.getByText('"total": 12345678901234567890.50').waitFor();
  await detail.getByRole("row", { name: "<b>big</b> 9007199254740993 long" }).waitFor();
  await detail.getByRole("button", { name: "Hex" }).click();
  await detail.getByText("000000  7b 22 6f 72 64 65 72").waitFor();
  await accessible("messages");

  // Wrong values stay in the form, with what is wrong with them.
  await button("Send").click();
  await dialog.getByLabel("Kind").selectOption("JSON");
  await dialog.getByLabel("Content", { exact: true }).fill("{");
  await dialog.getByRole("button", { name: "Send" }).click();
  await dialog.getByRole("alert").getByText("The body is not JSON").waitFor();
  await press("Escape");

  // Received, dead-lettered, edited and resubmitted.
  await button("Receive").click();
  await dialog.getByRole("button", { name: "Receive", exact: true }).click();
  await heading("Received, locked for you").waitFor();
  await accessible("a received message");
  await button("Dead-letter").click();
  await dialog.getByLabel("Reason").fill("Unpaid");
  await dialog.getByLabel("Description").fill("The card was refused.");
  await dialog.getByRole("button", { name: "Dead-letter" }).click();
  await said("Message 1 is in the dead-letter queue.");
  await link(/^Dead letters/).click();
  await button("Message 1").click();
  await page.getByText("The card was refused.").first().waitFor();
  await accessible("dead letters");
  await button("Edit and resubmit").click();
  await dialog.getByLabel("Content", { exact: true }).fill('{"order": 1, "paid": true}');
  await dialog.getByRole("button", { name: "Resubmit" }).click();
  await said("Message 1 is resubmitted.");
  await heading("No dead letters").waitFor();
  await link(/^Messages/).click();
  await button("Message 2").click();
  await page.locator("pre").getByText('"paid": true').waitFor();
  assert.equal(await page.getByText("DeadLetterReason").count(), 0);

  // Deferred, found by its state, received by its number, completed.
  await button("Receive").click();
  await dialog.getByRole("button", { name: "Receive", exact: true }).click();
  await button("Defer").click();
  await said("Message 2 is deferred.");
  await page.getByLabel("State").selectOption("Deferred");
  await page.getByRole("region", { name: "Message 2" }).getByRole("button", { name: "Receive" }).click();
  await button("Complete").first().click();
  await said("Message 2 is completed.");

  // Scheduled and cancelled.
  await button("Send").click();
  await dialog.getByText("Broker properties").click();
  await dialog.getByLabel("Schedule for").fill("2099-01-01T12:00:01");
  await dialog.getByLabel("Label").fill("later");
  await dialog.getByRole("button", { name: "Send" }).click();
  await said("Scheduled with number 3.");
  await link(/^Scheduled/).click();
  await page.getByLabel("Choose 3", { exact: true }).check();
  await button("Cancel 1").click();
  await dialog.getByRole("button", { name: "Cancel delivery" }).click();
  await heading("Nothing is scheduled").waitFor();

  // Many dead letters, of a program's making, are resubmitted at once.
  const bus = new ServiceBusClient(connection);
  await bus.createSender(orders).sendMessages(Array.from({ length: 40 }, (_, i) => ({
    messageId: `order-${1001 + i}`, subject: i % 3 ? "order" : "return", contentType: "application/json",
    body: { order: 1001 + i, customer: { name: "Ada Lovelace", country: "SE" }, lines: [{ sku: "A-1", count: 2 }, { sku: "B-7", count: 1 }], total: 129.5 },
    applicationProperties: { region: "eu", amount: 129.5, express: i % 2 === 0, placed: new Date("2026-01-31T12:00:00Z") },
  })));
  const receiver = bus.createReceiver(orders);
  for (let left = 25; left > 0;) {
    const messages = await receiver.receiveMessages(left, { maxWaitTimeInMs: 5000 });
    left -= messages.length;
    await Promise.all(messages.map((m, i) => receiver.deadLetterMessage(m, i % 2
      ? { deadLetterReason: "Unpaid", deadLetterErrorDescription: "The card was refused." }
      : { deadLetterReason: "UnknownArticle", deadLetterErrorDescription: "There is no article B-7." })));
  }
  await open(orders, "dead");
  const first = page.getByRole("row").nth(1);
  await page.getByText("25 shown").waitFor();
  await page.getByLabel("Choose all").check();
  await first.getByRole("checkbox").uncheck();
  await first.getByRole("button").click();
  await picture("console-deadletters");
  await button("Resubmit 24").click();
  await dialog.getByText("moved once").waitFor();
  await accessible("resubmitting");
  await dialog.getByRole("button", { name: "Resubmit", exact: true }).click();
  await said("24 resubmitted.");
  await page.getByText("1 shown").waitFor();
  await page.getByLabel("Choose all").check();
  await button("Delete 1").click();
  await dialog.getByRole("button", { name: "Delete", exact: true }).click();
  await heading("No dead letters").waitFor();
  await open(orders, "messages");
  await page.getByText("39 shown").waitFor();
  await page.getByRole("row").nth(4).click();
  await picture("console-messages", ["dark", "light"]);

  // A topic, a subscription, a rule, and what it makes of messages.
  await button("New queue or topic").click();
  await dialog.getByLabel("Kind").selectOption("topic");
  await dialog.getByLabel("Name").fill(topic);
  await dialog.getByRole("button", { name: "Create topic" }).click();
  await button("Subscription").click();
  await dialog.getByLabel("Name").fill("eu");
  await dialog.getByText("Settings").click();
  await dialog.getByLabel("Lock duration").fill("25 h");
  await dialog.getByRole("button", { name: "Create subscription" }).click();
  await dialog.getByRole("alert").getByText("LockDuration is 25h0m0s").waitFor();
  await dialog.getByLabel("Lock duration").fill("30 s");
  await dialog.getByRole("button", { name: "Create subscription" }).click();
  await heading("eu").waitFor();
  await link("Rules").click();
  await button("Add").click();
  await dialog.getByLabel("Name", { exact: true }).fill("large");
  await dialog.getByLabel("Expression").fill("region = 'eu' AND");
  await dialog.getByRole("button", { name: "Add rule" }).click();
  await dialog.getByRole("alert").getByText(/./).waitFor();
  await dialog.getByLabel("Expression").fill("region = 'eu' AND amount > 100");
  await dialog.getByLabel("Action").fill("SET priority = 'high'");
  await dialog.getByRole("button", { name: "Add rule" }).click();
  await button("Delete rule $Default").click();
  await dialog.getByRole("button", { name: "Delete rule" }).click();
  await button("Delete rule $Default").waitFor({ state: "detached" });
  await page.getByLabel("Name of property 1").fill("region");
  await page.getByLabel("Value of region").fill("eu");
  await button("Test").click();
  await page.getByText("0 of 1 rule matches.").waitFor();
  await button("Add property").click();
  await page.getByLabel("Name of property 2").fill("amount");
  await page.getByLabel("Type of amount").selectOption("double");
  await page.getByLabel("Value of amount").fill("129.5");
  await button("Test").click();
  await page.getByText("1 of 1 rule matches.").waitFor();
  await page.getByText("The copy").click();
  await page.getByRole("row", { name: "priority high" }).waitFor();
  await accessible("the filter tester");
  await picture("console-rules");
  await page.getByLabel("Try a filter that is not saved").check();
  await page.getByLabel("Expression").fill("region = 'us'");
  await button("Test").click();
  await page.getByText("0 of 1 rule matches.").waitFor();

  // Sessions, their state and their messages.
  await button("New queue or topic").click();
  await dialog.getByLabel("Name").fill(carts);
  await dialog.getByText("Settings").click();
  await dialog.getByLabel("Sessions").check();
  await dialog.getByRole("button", { name: "Create queue" }).click();
  await heading(carts).waitFor();
  await bus.createSender(carts).sendMessages({ body: "two apples", sessionId: "ada" });
  await link("Sessions").click();
  await button("Open").click();
  await dialog.getByText("two apples").waitFor({ state: "attached" });
  await dialog.getByText("The session has no state.").waitFor();
  await dialog.getByLabel("Content").fill("checking out");
  await dialog.getByRole("button", { name: "Set state" }).click();
  await dialog.getByText("12 bytes.").waitFor();
  await dialog.getByText("Hand the session over").click();
  assert.match(await dialog.locator("details p.mono").textContent(), /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  await accessible("a session");
  await press("Escape");
  await dialog.waitFor({ state: "detached" });
  const holder = await whenFree(() => bus.acceptSession(carts, "ada")); // which nobody can take over
  await button("Open").click();
  await dialog.getByLabel("Token of the session's lock").fill("00112233-4455-6677-8899-aabbccddeeff");
  await accessible("taking a session over");
  await dialog.getByRole("button", { name: "Take over" }).click();
  // Notices of what was done before may be there yet.
  await page.getByRole("paragraph").filter({ hasText: "That is not the token of the session's lock." }).getByLabel("Dismiss").click();
  await holder.close();
  await link(/^Messages/).click();
  await button("Receive").click();
  await dialog.getByLabel("Session", { exact: true }).fill("ada");
  await dialog.getByRole("button", { name: "Receive", exact: true }).click();
  await page.getByText("session ada").waitFor();
  await button("Complete").click();
  await said("Message 1 is completed.");
  await bus.createSender(carts).sendMessages({ body: "no pears", sessionId: "" });
  await button("Receive").click();
  await dialog.getByLabel("The session whose id is empty").check();
  await dialog.getByRole("button", { name: "Receive", exact: true }).click();
  await page.getByText("session with the empty id").waitFor();
  await button("Complete").click();
  await said("Message 2 is completed.");

  // Settings change, and rates and charts follow what happens.
  await open(orders, "settings");
  await page.getByLabel("Deliveries before dead-lettering").fill("3");
  await button("Save").click();
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: `http://${gateway}` });
  await button("Add policy").click();
  await dialog.getByLabel("Name").fill("auditor");
  await dialog.getByLabel("Send").uncheck();
  await dialog.getByLabel("Listen").check();
  await dialog.getByRole("button", { name: "Add policy" }).click();
  await button("Copy connection string").click();
  await said("in the clipboard");
  const auditor = await page.evaluate(() => navigator.clipboard.readText());
  await accessible("settings");
  await link("Overview").last().click();
  await page.getByText("Maximum deliveries").waitFor();
  const busy = traffic(bus);
  if (pictures) await page.waitForTimeout(30_000);
  await page.waitForFunction(() => document.querySelector(".legend b").textContent !== "0/s");
  await accessible("a queue's overview");
  await picture("console-queue", ["dark", "light"]);
  await link("Overview").first().click();
  await page.getByRole("cell", { name: orders }).first().waitFor();
  await page.waitForTimeout(pictures ? 45_000 : 0);
  await accessible("the overview");
  await picture("console");
  await busy.stop();
  await link("Connected clients").click();
  await page.getByText("this page").waitFor();
  await page.getByRole("cell", { name: /MSJSClient/ }).first().waitFor();
  await page.getByRole("row", { name: /^sbemulatorns amqp/ }).getByRole("link", { name: orders }).first().waitFor();
  await accessible("connected clients");
  await bus.close();

  // Resubmitting many can be stopped; what is left can be deleted at once.
  await page.evaluate(async ([secret, queue]) => {
    const { Crosstown } = await import("/client/crosstown.js");
    const client = new Crosstown(location.origin, { connectionString: secret });
    await client.create("queue", queue);
    await client.send(queue, Array.from({ length: 1000 }, (_, i) => `letter ${i}`));
    const feed = client.receive(queue, { prefetch: 1000 });
    for (let i = 0, settled = []; i < 1000; i++) {
      settled.push((await feed.next()).value.deadLetter({ reason: "Tried" }));
      if (i === 999) await Promise.all(settled);
    }
    await client.close();
  }, [connection, letters]);
  await open(letters, "dead");
  for (let shown = 50; shown < 500; shown += 50) await Promise.all([page.getByText(`${shown + 50} shown`).waitFor(), button("Show more").click()]);
  await page.getByLabel("Choose all").check();
  let goOn, asked = 0;
  const cancelled = new Promise((resolve) => { goOn = resolve; });
  await page.route("**/$crosstown/messages/**", async (route) => {
    if (asked++ > 0) await cancelled;
    await route.continue();
  });
  await button("Resubmit 500").click();
  await dialog.getByRole("button", { name: "Resubmit", exact: true }).click();
  await dialog.getByText(/^[1-9]\d* of 500/).waitFor(); // some have been moved
  await dialog.getByRole("button", { name: "Cancel the rest" }).click();
  goOn();
  await dialog.getByText("cancelled, the rest is untouched").waitFor();
  const moved = Number(/^\d+/.exec(await dialog.getByRole("status").textContent()));
  assert.ok(moved > 0 && moved < 500, `${moved} of 500 were moved`);
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await button("Delete all").click();
  await dialog.getByRole("button", { name: "Delete all" }).click();
  await said(`${(1000 - moved).toLocaleString("en-GB")} deleted.`);
  await link(/^Messages/).click();
  await button("Message 1001").waitFor();

  // A thousand entities: only those in sight are drawn.
  await page.evaluate(async (secret) => {
    const { Crosstown } = await import("/client/crosstown.js");
    const client = new Crosstown(location.origin, { connectionString: secret });
    for (let i = 0; i < 1000; i += 100) await Promise.all(Array.from({ length: 100 }, (_, n) => client.create("queue", `many-${i + n}`)));
    await client.close();
  }, connection);
  await page.goto(`http://${gateway}/#/`);
  await page.getByRole("definition").getByText("1,00").first().waitFor();
  assert.ok((await page.locator(".list li").count()) < 60);
  await press("/");
  await page.keyboard.type("many-999");
  await link(/many-999/).click();
  await heading("many-999").waitFor();

  // Who may only listen sees what that allows.
  assert.deepEqual(await page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]), [0, 0, ""]);
  assert.deepEqual((await context.storageState()).origins, []);
  assert.ok(!page.url().includes("Shared"));
  await button("Sign out").click();
  await signIn(listener);
  await heading("This key may not list entities").waitFor();
  await page.getByLabel("Name of an entity").fill(orders);
  await button("Open").click();
  await page.getByText(/shown/).waitFor();
  assert.equal(await button("Send").count() + (await button("Delete").count()) + (await link("Settings").count()), 0);
  await accessible("with a key that may only listen");

  await button("Sign out").click();
  await page.goto(`http://${gateway}/#/`);
  await signIn(auditor);
  await heading(`auditor may Listen in ${orders}`).waitFor();
  await button("Open").click();
  await page.getByText(/shown/).waitFor();

  // On a small screen the list and the entity take turns.
  await page.setViewportSize({ width: 390, height: 800 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, "it is wider than the screen");
  await button("Sign out").click();
  await signIn(connection);
  await open(orders);
  await button("Delete").click();
  await dialog.getByRole("button", { name: "Delete queue" }).click();
  await said(`${orders} is deleted.`);
  assert.deepEqual(faults, []);
}, { viewport: { width: 1280, height: 800 }, locale: "en-GB", timezoneId: "UTC" });
console.log("told");
