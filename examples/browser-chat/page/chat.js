const [door, room, state, said, say] = ["door", "room", "state", "said", "say"].map((id) => document.getElementById(id));

door.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { name, room } = Object.fromEntries(new FormData(door));
  await join(name, room).catch((e) => { state.textContent = `It is over: ${e.message}`; });
});

async function join(name, where) {
  const made = await fetch("join", { method: "POST", body: new URLSearchParams({ room: where }) });
  if (!made.ok) throw new Error(await made.text());
  const { gateway, topic, subscription } = await made.json();
  const { Crosstown } = await import(`${gateway}/client/crosstown.js`);

  const bus = new Crosstown(gateway, { getToken: async () => (await fetch("token")).text() });
  bus.on("open", () => { state.textContent = "connected"; });
  bus.on("close", ({ retryIn, error }) => { state.textContent = retryIn === null ? `It is over: ${error.text}` : "connecting again …"; });
  await bus.ready;

  door.hidden = true;
  room.hidden = false;
  room.querySelector("h1").textContent = where;
  say.elements.text.focus();
  say.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = say.elements.text.value;
    say.reset();
    // The topic drops messages that the client sends again after a broken connection.
    const message = { text, broker: { MessageId: crypto.randomUUID(), Label: where }, properties: { from: name } };
    await bus.send(topic, message, { retry: true }).catch((e) => show("not sent", `${text} (${e.message})`, true));
  });

  const seen = new Set(); // a message is delivered again if its completion was lost with a connection
  for await (const message of bus.receive(subscription)) {
    const id = message.broker.MessageId;
    if (!seen.has(id)) show(message.properties.from, message.text, message.properties.from === name);
    seen.add(id);
    message.complete().catch(() => {}); // if this fails, the message is delivered again
  }
}

function show(from, text, mine) {
  const li = document.createElement("li");
  const by = document.createElement("b");
  by.textContent = from;
  li.append(by, text);
  li.classList.toggle("mine", mine);
  said.append(li);
  li.scrollIntoView({ block: "end" });
}
