// The console for operators: connections that are closed, sessions with their holders, the gateway, and charts
// that begin with what was before the page.
import assert from "node:assert/strict";
import { operate } from "./operator.mjs";

await operate(async ({ page, button, dialog, heading, home, open, row, said, seen, signIn, client, phone, desktop }) => {
  await client(async (bus) => {
    await bus.create("queue", "steps", { RequiresSession: true });
    for (const session of ["alpha", "alpha", "beta"]) await bus.send("steps", { broker: { SessionId: session }, text: "x" });
    for (let i = 0; i < 40; i++) await bus.send("orders", "x");
  });
  await page.evaluate(async (secret) => {
    const { Crosstown } = await import("/client/crosstown.js");
    const bus = globalThis.bus = new Crosstown(location.origin, { connectionString: secret });
    globalThis.closings = 0;
    bus.on("close", () => globalThis.closings++);
    globalThis.feed = bus.receive("steps", { session: "alpha", prefetch: 1, reaccept: true });
    await globalThis.feed.ready;
    await globalThis.feed.setState("half way");
  }, process.env.STORY_CONNECTION);

  // No axis shows 1970, or tomorrow: with no sample, with one, and with more.
  const axesAreNow = async () => {
    const all = await page.locator(".chart").evaluateAll((charts) => charts.map((c) => [Number(c.dataset.from), Number(c.dataset.to)]));
    assert.ok(all.length > 0);
    for (const [from, to] of all) assert.ok(to - from >= 60 && to - from <= 86400 && Math.abs(to - Date.now() / 1000) < 60, `an axis goes from ${from} to ${to}`);
  };
  await axesAreNow();

  // Sessions have counts, a lock and a holder.
  await open("steps", "sessions");
  const alpha = row(/^alpha /), beta = row(/^beta /);
  await alpha.filter({ hasText: "8 B" }).waitFor();
  const cells = async (of) => (await of.getByRole("cell").allTextContents()).map((t) => t.trim());
  const held = await cells(alpha);
  assert.equal(Number(held[1]) + Number(held[2]), 2, held.join(" | "));
  assert.match(held[5], /\d\d:\d\d:\d\d/);
  assert.match(held[6], /Chrom/);
  assert.deepEqual((await cells(beta)).slice(1, 7), ["1", "0", "0", "–", "free", "–"]);
  await seen("sessions");
  await phone();
  await seen("sessions on a phone");
  await desktop();

  // The holder's connection is closed; its client connects again and gets the session back.
  await home("connections");
  const other = row(/websocket/).filter({ hasText: "session alpha" });
  await other.waitFor();
  await seen("connections");
  await other.getByRole("button", { name: "Close" }).click();
  await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
  await said(/is closed/);
  await page.evaluate(async () => { // waitForFunction would take a promise for its end
    for (let again = false; !again;) again = await globalThis.feed.state().then(() => true, () => new Promise((resolve) => setTimeout(resolve, 50)));
  });
  assert.equal(await page.evaluate(() => globalThis.closings), 1);
  await other.waitFor();
  await phone();
  await seen("connections on a phone");
  await desktop();

  // The gateway tells of itself.
  await page.getByRole("link", { name: "Gateway", exact: true }).click();
  await heading("Gateway").waitFor();
  const tile = (name) => page.getByRole("term").filter({ hasText: name }).first().locator("xpath=following-sibling::dd");
  assert.match(await tile("Memory").textContent(), /MiB of .*GiB/);
  assert.match(await tile("Store latency").textContent(), /ms/);
  await page.getByText("lost with the gateway").waitFor();
  await page.waitForFunction(() => document.querySelectorAll("canvas").length === 2);
  await axesAreNow();
  await seen("gateway");
  await phone();
  await seen("gateway on a phone");
  await desktop();

  // The gateway has kept what came before the page looked. Charts begin with it.
  const kept = () => page.evaluate(async () => {
    const base = document.querySelector("script[type=module]").src.replace(/[^/]*$/, "");
    const { ask } = await import(`${base}adminapi.js`);
    const all = await ask("history/orders"); globalThis.answers = [...(globalThis.answers ?? []), JSON.stringify(all)]; return all.in.at(-1) ?? 0;
  });
  await client(async (bus) => { for (let i = 0; i < 10; i++) await bus.send("orders", "y"); });
  for (const end = Date.now() + 300_000; (await kept()) < 10;) {
    assert.ok(Date.now() < end, "the gateway keeps no history: " + await page.evaluate(() => [...new Set(globalThis.answers)].join(" ")));
    await page.waitForTimeout(500);
  }
  const vitals = await page.evaluate(async () => (await import(document.querySelector("script[type=module]").src.replace(/[^/]*$/, "adminapi.js"))).ask("history?gateway"));
  assert.ok(vitals.at.length > 0 && vitals.inUse.length === vitals.at.length && vitals.inUse[0] > 2 ** 20 && vitals.latencyMs[0] >= 0 && vitals.messages[0] >= 0, JSON.stringify(vitals));
  const hourAgo = Math.floor(Date.now() / 1000) - 3000;
  await page.route("**/history?gateway", (route) => route.fulfill({ json: { at: [hourAgo, ...vitals.at], latencyMs: [3, ...vitals.latencyMs], inUse: [7e7, ...vitals.inUse], messages: [0, ...vitals.messages] } }));
  await page.reload();
  await signIn();
  await heading("Gateway").waitFor();
  await page.waitForFunction((from) => [...document.querySelectorAll(".chart")].every((c) => Number(c.dataset.from) === from) && document.querySelectorAll("canvas").length === 2, hourAgo);
  await axesAreNow();
  await home();
  await heading("Overview").waitFor();
  await page.waitForFunction(() => document.querySelectorAll("canvas").length === 1);
  await axesAreNow();

  // A gateway that has run for five hours.
  const began = Math.floor(Date.now() / 1000) - 5 * 3600, at = Array.from({ length: 300 }, (_, i) => began + 60 * i);
  const active = at.map((_, i) => Math.round(40 + 30 * Math.sin(i / 20))), came = at.map((_, i) => 600 * i + Math.round(900 * Math.sin(i / 30)));
  const long = { entity: "orders", at, in: came, out: came.map((n, i) => n - active[i]), active, scheduled: at.map(() => 3), deadLetter: at.map((_, i) => Math.floor(i / 50)) };
  await page.route("**/history/orders", (route) => route.fulfill({ json: long }));
  await open("orders");
  await heading("orders").waitFor();
  await page.getByLabel("Time that charts show").selectOption("24 hours");
  await page.waitForFunction((from) => Number(document.querySelector(".chart").dataset.from) === from, began);
  await axesAreNow();
  await page.getByLabel("Time that charts show").selectOption("1 hour");
  await page.waitForFunction(() => { const { from, to } = document.querySelector(".chart").dataset; return to - from > 3500 && to - from <= 3600; });
  await page.getByLabel("Time that charts show").selectOption("6 hours");
  await seen("charts with history");
  await phone();
  await seen("charts with history on a phone");
  await desktop();
  const axes = await page.evaluate(async () => {
    const base = document.querySelector("script[type=module]").src.replace(/[^/]*$/, "");
    const { ends } = await import(`${base}chart.js`);
    const { joined, pointsOf } = await import(`${base}history.js`);
    const now = Date.now() / 1000;
    return {
      now,
      empty: ends(null, null, 3600),
      one: ends(now, now, 3600),
      long: ends(now - 9000, now, 3600),
      points: joined(pointsOf({ at: [1000, 1010, 2000, 2010], in: [0, 50, 50, 60], out: [0, 0, 0, 10], active: [0, 50, 50, 50] }), [{ t: 2_010_000, in: 7 }]),
    };
  });
  for (const [from, to] of [axes.empty, axes.one, axes.long]) assert.ok(to - from >= 60 && to - from <= 3600 && Math.abs(to - axes.now) < 60, `${from} to ${to}`);
  assert.deepEqual(axes.points.map((p) => [p.t, p.in, p.out]), [[1_000_000, undefined, undefined], [1_010_000, 5, 0], [1_020_000, 0, 0], [2_000_000, 0, 0], [2_010_000, 7, undefined]]);
  await page.evaluate(() => globalThis.bus?.close());
});
