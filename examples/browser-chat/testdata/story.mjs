// Two people talk in a room, and a third one in another.
import assert from "node:assert/strict";
import { browse } from "./browser.mjs";

const join = async (page, name, room) => {
  await page.goto(process.env.STORY_PAGE);
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Room").fill(room);
  await page.getByRole("button", { name: "Join" }).click();
  await page.getByLabel("Your message").waitFor();
  assert.ok(await page.getByLabel("Name").isHidden());
  assert.equal(await page.getByRole("status").textContent(), "connected");
};
const say = async (page, text) => {
  await page.getByLabel("Your message").fill(text);
  await page.getByRole("button", { name: "Send" }).click();
};
const heard = async (page, count) => {
  await page.getByRole("listitem").nth(count - 1).waitFor();
  return page.getByRole("listitem").evaluateAll((items) => items.map((li) => `${li.firstChild.textContent}: ${li.lastChild.textContent}`));
};

await browse(async (ann, context) => {
  const bob = await context.newPage(), cleo = await context.newPage();
  await join(ann, "ann", "kitchen");
  await join(bob, "bob", "kitchen");
  await join(cleo, "cleo", "garden");
  await say(ann, "hello <b>bob</b>");
  assert.deepEqual(await heard(bob, 1), ["ann: hello <b>bob</b>"]);
  await say(bob, "hello ann 🚆");
  await say(cleo, "anybody here?");
  for (const page of [ann, bob]) assert.deepEqual(await heard(page, 2), ["ann: hello <b>bob</b>", "bob: hello ann 🚆"]);
  assert.deepEqual(await heard(cleo, 1), ["cleo: anybody here?"]);
  assert.equal(await ann.getByRole("listitem").first().getAttribute("class"), "mine");
});
console.log("told");
