// The console's list of messages of a queue that requires sessions: what is chosen is dead-lettered or
// deleted by number, but for messages of sessions that receivers hold.
import assert from "node:assert/strict";
import { operate } from "./operator.mjs";

await operate(async ({ page, open, button, heading, row, dialog, said, seen, client, link }) => {
  await client(async (bus) => {
    const send = (session, ...texts) => bus.send("orders", texts.map((text) => ({ broker: { SessionId: session }, text })));
    for (let i = 1; i <= 4; i++) for (const session of ["ada", "bob"]) await send(session, `${session} ${i}`);
    for (const session of ["cy", ""]) {
      await send(session, `aside of ${session || "the empty id"}`);
      const feed = bus.receive("orders", { session, prefetch: 1 });
      await (await feed.next()).value.defer();
      await feed.close();
    }
    await bus.send("orders", { broker: { SessionId: "cy", ScheduledEnqueueTimeUtc: new Date(Date.now() + 3_600_000) }, text: "later" });
  });
  /** What a receiver of a session gets, with the delivery counts: this is the first delivery. */
  const received = (session, count) => client(async (bus, [name, n]) => {
    const feed = bus.receive("orders", { session: name, prefetch: 0 });
    const all = await feed.take(n, 10);
    await Promise.all(all.map((d) => d.complete()));
    await feed.close();
    return all.map((d) => `${d.text ?? d.body} ${d.broker.DeliveryCount ?? 0}`);
  }, [session, count]);
  const choose = async (...texts) => {
    for (const text of texts) await row(text).getByRole("checkbox").check();
  };
  const decide = (action) => dialog.getByRole("button", { name: action, exact: true }).click();
  const shown = (n) => page.getByText(`${n} shown`, { exact: true }).waitFor();

  // While a receiver holds a session, its messages stay, and the page says why.
  await page.evaluate(`(async () => {
    const { Crosstown } = await import("/client/crosstown.js");
    globalThis.holder = new Crosstown(location.origin, { connectionString: ${JSON.stringify(process.env.STORY_CONNECTION)} });
    globalThis.feed = holder.receive("orders", { session: "bob", prefetch: 0 });
    await feed.renew();
  })()`);
  await open("orders", "messages");
  await shown("11");
  await choose(/ada 2/, /ada 3/, /bob 1/);
  await button("Dead-letter 3").click();
  await seen("chosen messages of sessions");
  await decide("Dead-letter");
  await dialog.getByText("2 of 3 dead-lettered, 1 not.").waitFor();
  await dialog.getByText(/a receiver has locked the session 'bob': close that receiver or wait until the session's lock expires/).waitFor();
  await seen("a message of a session that a receiver holds");
  await dialog.getByRole("button", { name: "Close" }).last().click();
  await shown("9");
  await page.evaluate("feed.close().then(() => holder.close())");

  // Without that receiver, in all states.
  await row(/bob 1/).getByRole("checkbox").uncheck();
  await choose(/ada 1/, /bob 2/, /bob 3/, /aside of cy/, /aside of the empty id/, /later/);
  await button("Delete 6").click();
  await decide("Delete");
  await said("6 deleted.");
  await shown("3");
  assert.deepEqual([await received("ada", 1), await received("bob", 2)], [["ada 4 1"], ["bob 1 1", "bob 4 1"]]);

  // The dead letters say what the operator did.
  await link(/^Dead letters/).click();
  await shown("2");
  await row(/ConsoleDeadLettered ada 2/).waitFor();
  await row(/ConsoleDeadLettered ada 3/).waitFor();
  await open("orders", "messages");
  await heading("No messages").waitFor();
});
