// Has a page read a stream of server-sent events with fetch; a page of another
// origin may not.
import assert from "node:assert/strict";
import { browse } from "./browser.mjs";

const { STORY_GATEWAY: gateway, STORY_QUEUE: queue, STORY_TOKEN: token, STORY_PAGE: elsewhere } = process.env;

await browse(async (page) => {
  const stream = `http://${gateway}/${queue}/messages/stream`;
  await page.goto(`http://${gateway}/health`);
  const texts = await page.evaluate(async ({ stream, token }) => {
    const headers = { Authorization: token };
    const send = async (body) => {
      const answer = await fetch(stream.replace("/stream", ""), { method: "POST", headers: { ...headers, "Content-Type": "text/plain" }, body });
      if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    };
    await send("before");
    const answer = await fetch(stream, { headers });
    const texts = [];
    let rest = "";
    for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
      const events = (rest + chunk).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const data = event.split("\n").find((line) => line.startsWith("data: "));
        if (data) texts.push(JSON.parse(data.slice(6)).text);
        if (texts.length === 1) await send("after");
      }
      if (texts.length === 2) break; // ends the request, too
    }
    return texts;
  }, { stream, token });
  assert.deepEqual(texts, ["before", "after"]);

  await page.goto(elsewhere);
  const refused = await page.evaluate(({ stream, token }) => fetch(stream, { headers: { Authorization: token } }).then(() => "", String), { stream, token });
  assert.match(refused, /Failed to fetch/);
});
console.log("told");
