// What stories told by a browser begin with.
import { chromium } from "playwright-core";

/**
 * Tells a story with a page in headless Chromium, and closes that whatever
 * happens. What the page writes to its console is printed, for whoever reads of
 * a failure; an error that it does not catch fails the story. Waits end after
 * 20 seconds.
 * @param {(page: import("playwright-core").Page, context: import("playwright-core").BrowserContext) => Promise<void>} story
 * @param {import("playwright-core").BrowserContextOptions} [options] such as viewport
 */
export async function browse(story, options = {}) {
  const browser = await chromium.launch({
    executablePath: process.env.STORY_CHROMIUM,
    args: ["--ignore-certificate-errors"], // for wss://, which ignoreHTTPSErrors does not reach
  });
  try {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, ...options });
    context.setDefaultTimeout(20000);
    const page = await context.newPage();
    const faults = [];
    page.on("console", (line) => console.log(`page: ${line.type()}: ${line.text()}`));
    page.on("pageerror", (fault) => faults.push(fault));
    await story(page, context);
    if (faults.length > 0) {
      throw new AggregateError(faults, `the page did not catch: ${faults.map((f) => f.stack).join("\n")}`);
    }
  } finally {
    await browser.close();
  }
}
