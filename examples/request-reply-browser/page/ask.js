const form = document.querySelector("form"), state = document.getElementById("state"), list = document.querySelector("dl");

const pass = async () => (await fetch("pass")).json();
const { gateway } = await pass();
const { Crosstown } = await import(`${gateway}/client/crosstown.js`);
const bus = new Crosstown(gateway, { getToken: async () => (await pass()).tokens });
bus.on("open", () => { state.textContent = "connected"; });
bus.on("close", ({ retryIn, error }) => { state.textContent = retryIn === null ? `It is over: ${error.text}` : "connecting again …"; });

const me = crypto.randomUUID(); // session of this page's answers
const waiting = new Map(); // what resolves each answer, by the question's id

/** Asks, and resolves to the answer. */
async function ask(question) {
  const id = crypto.randomUUID();
  const answer = new Promise((resolve) => waiting.set(id, resolve));
  const broker = { MessageId: id, ReplyTo: "answers", ReplyToSessionId: me, TimeToLive: 60 };
  await bus.send("questions", { text: question, broker }, { retry: true });
  return answer;
}

async function listen() {
  for await (const message of bus.receive("answers", { session: me, reaccept: true })) {
    waiting.get(message.broker.CorrelationId)?.(message.text);
    waiting.delete(message.broker.CorrelationId);
    message.complete().catch(() => {}); // if this fails, the message is delivered again, and ignored
  }
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const number = form.elements.number.value;
  form.reset();
  const dt = document.createElement("dt"), dd = document.createElement("dd"), time = document.createElement("time");
  dt.textContent = number;
  dd.textContent = "…";
  list.prepend(dt, dd);
  const began = performance.now();
  try {
    dd.textContent = await ask(number);
  } catch (e) {
    dd.textContent = e.message;
  }
  time.textContent = `${Math.round(performance.now() - began)} ms`;
  dd.append(time);
});

listen().catch((e) => { state.textContent = `It is over: ${e.message}`; });
