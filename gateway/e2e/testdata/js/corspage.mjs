// Has a page of a listed origin send, receive under a lock, settle and read a stream over HTTP; a
// page of another origin may do none of it.
import assert from "node:assert/strict";
import { browse } from "./browser.mjs";

const { STORY_GATEWAY: gateway, STORY_QUEUE: queue, STORY_TOKEN: token, STORY_PAGE: listed } = process.env;
const messages = `http://${gateway}/${queue}/messages`;

await browse(async (page) => {
  await page.goto(listed);
  const told = await page.evaluate(async ({ messages, token }) => {
    const headers = { Authorization: token, Colour: '"red"', BrokerProperties: '{"Label":"greeting"}' };
    const sent = await fetch(messages, { method: "POST", headers, body: "hello" });
    const got = await fetch(`${messages}/head?timeout=5`, { method: "POST", headers: { Authorization: token } });
    const properties = JSON.parse(got.headers.get("BrokerProperties"));
    const settled = await fetch(got.headers.get("Location"), { method: "DELETE", headers: { Authorization: token } });
    const again = await fetch(messages, { method: "POST", headers, body: "streamed" });
    if (!again.ok) throw new Error(`${again.status} ${await again.text()}`);
    const stream = await fetch(`${messages}/stream`, { headers: { Authorization: token } });
    let text = "";
    for await (const chunk of stream.body.pipeThrough(new TextDecoderStream())) {
      if ((text += chunk).includes("streamed")) break; // ends the request, too
    }
    const denied = await fetch(messages, { method: "POST", headers: { Authorization: "SharedAccessSignature none" }, body: "x" });
    return {
      sent: sent.status, body: await got.text(), label: properties.Label, colour: got.headers.get("Colour"),
      settled: settled.status, denied: denied.status,
      cookies: await fetch(messages, { method: "POST", headers, body: "x", credentials: "include" }).then(() => "", String),
    };
  }, { messages, token });
  assert.match(told.cookies, /Failed to fetch/);
  delete told.cookies;
  assert.deepEqual(told, { sent: 201, body: "hello", label: "greeting", colour: '"red"', settled: 200, denied: 401 });

  const elsewhere = new URL(listed);
  elsewhere.hostname = "elsewhere.localhost"; // the same page, of an origin that is not listed
  await page.goto(elsewhere.href);
  const refused = await page.evaluate(({ messages, token }) =>
    fetch(messages, { method: "POST", headers: { Authorization: token }, body: "x" }).then(() => "", String), { messages, token });
  assert.match(refused, /Failed to fetch/);
});
console.log("told");
