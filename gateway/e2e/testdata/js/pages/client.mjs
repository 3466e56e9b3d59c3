// The client in a page whose connection breaks while messages are sent and
// completed. It counts what becomes of each.
globalThis.tell = async ({ gateway, proxy, connection, queue, count }) => {
  const { Crosstown } = await import(`http://${gateway}/client/crosstown.js`);
  const bus = new Crosstown(`http://${proxy}`, { connectionString: connection, reconnect: { minDelay: 0.01, maxDelay: 0.2 } });
  const told = { opened: 0, asked: 0, deliveredAfterDone: [], done: new Array(count).fill(0), surprises: [] };
  bus.on("open", () => told.opened++);

  const finish = async (m) => {
    for (let unknown = false; ;) {
      try {
        await m.complete();
        return;
      } catch (e) {
        if (e.unknownOutcome) {
          told.asked++;
          unknown = true;
        } else if (unknown && e.code === "lock_lost") {
          return; // it was carried out the first time
        } else {
          throw e;
        }
      }
    }
  };

  let next = 0;
  const lane = async () => {
    while (next < count) {
      const n = next++;
      await bus.send(queue, { json: n, broker: { MessageId: `m-${n}` } }, { retry: true });
    }
  };
  const sent = Promise.all([lane(), lane(), lane(), lane()]);

  let left = count;
  for await (const m of bus.receive(queue, { prefetch: 5 })) {
    if (told.done[m.json] > 0) told.deliveredAfterDone.push(m.json);
    const how = { [Math.floor(count * 0.7)]: "unanswered", [Math.floor(count * 0.3)]: "at once" }[left];
    if (how) await globalThis.cut(how);
    try {
      await finish(m);
      told.done[m.json]++;
    } catch (e) {
      told.surprises.push(`${m.json}: ${e.code}: ${e.text}`);
    }
    if (--left === 0) break;
  }
  await sent;
  const { counts } = await bus.entity(queue);
  await bus.close();

  // Without an address it goes to where the module is from, which knows no such token.
  const stray = await new Crosstown({ token: "none" }).ready.catch((e) => e.code);
  return { ...told, counts, stray };
};
