// Has a page tell pages/sdk.mjs.
import { browse } from "./browser.mjs";

await browse(async (page) => {
  await page.goto(process.env.STORY_PAGE);
  await page.waitForFunction("globalThis.tell");
  await page.evaluate((said) => globalThis.tell(said), {
    connection: process.env.STORY_CONNECTION, queue: process.env.STORY_QUEUE, sessions: process.env.STORY_SESSIONS,
  });
});
console.log("told");
