// Two pages ask at the same time, and each gets its own answers.
import assert from "node:assert/strict";
import { browse } from "./browser.mjs";

const ask = async (page, number) => {
  await page.getByLabel("A number").fill(number);
  await page.getByRole("button", { name: "Ask" }).click();
};
const answers = async (page, count) => {
  await page.locator("dd time").nth(count - 1).waitFor();
  return page.locator("dl").evaluate((dl) => [...dl.querySelectorAll("dd")].map((dd) => `${dd.previousSibling.textContent}: ${dd.firstChild.textContent}`));
};

await browse(async (page, context) => {
  const other = await context.newPage();
  for (const p of [page, other]) {
    await p.goto(process.env.STORY_PAGE);
    await p.getByText("connected").waitFor();
  }
  await ask(page, "1984");
  await ask(other, "2026");
  await ask(page, "many");
  assert.deepEqual(await answers(page, 2), ["many: That is not a number from 1 to 3999.", "1984: MCMLXXXIV"]);
  assert.deepEqual(await answers(other, 1), ["2026: MMXXVI"]);
});
console.log("told");
