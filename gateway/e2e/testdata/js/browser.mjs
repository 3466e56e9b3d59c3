// What stories told by a browser begin with.
import { chromium } from "playwright-core";

/** How stories' Chromium is started. */
export const launching = {
  executablePath: process.env.STORY_CHROMIUM,
  args: ["--ignore-certificate-errors"], // for wss://, which ignoreHTTPSErrors does not reach
  timeout: 120000,
};

/**
 * Tells a story with a page in headless Chromium, and closes that whatever
 * happens. The browser is that of STORY_BROWSER (see browserserver.mjs), or else
 * one of the story's own. What the page writes to its console is printed, for
 * readers of a failure; an error that it does not catch fails the story. Waits
 * end after five minutes, which no machine takes.
 * @param {(page: import("playwright-core").Page, context: import("playwright-core").BrowserContext) => Promise<void>} story
 * @param {import("playwright-core").BrowserContextOptions} [options] such as viewport
 */
export async function browse(story, options = {}) {
  const { STORY_BROWSER: running } = process.env;
  const browser = await (running ? chromium.connect(running) : chromium.launch(launching));
  try {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, ...options });
    context.setDefaultTimeout(300000);
    await context.addInitScript(recordStatus);
    const page = await context.newPage();
    const faults = [];
    page.on("console", (line) => console.log(`page: ${line.type()}: ${line.text()}`));
    page.on("pageerror", (fault) => faults.push(fault));
    await story(page, context);
    if (faults.length > 0) {
      throw new AggregateError(faults, `the page did not catch: ${faults.map((f) => f.stack).join("\n")}`);
    }
  } finally {
    await browser.close(); // a running one ends the contexts of this connection, and goes on
  }
}

/** Records in `told` what elements of role status have said, for `said`. */
function recordStatus() {
  globalThis.told = [];
  const tell = (element) => globalThis.told.push(element.textContent.trim());
  new MutationObserver((changes) => {
    for (const { type, target, addedNodes } of changes) {
      const within = (target instanceof Element ? target : target.parentElement)?.closest("[role=status]");
      if (type === "characterData" && within) tell(within);
      for (const node of addedNodes) {
        if (within) tell(node instanceof Element ? node : within);
        else if (node instanceof Element) [node, ...node.querySelectorAll("*")].filter((e) => e.matches("[role=status]")).forEach(tell);
      }
    }
  }).observe(document, { subtree: true, childList: true, characterData: true });
}

/**
 * Waits until the page has told a text in an element of role status. What a page tells goes after some
 * seconds, or at the next step of a task, and a busy machine may look too late: so what it has told counts,
 * once each.
 * @param {import("playwright-core").Page} page
 * @param {string | RegExp} text a part of it, in whatever case, or a pattern
 */
export const said = (page, text) => page.waitForFunction(([source, flags]) => {
  const pattern = new RegExp(source, flags), at = globalThis.told.findIndex((t) => pattern.test(t));
  if (at >= 0) globalThis.told.splice(at, 1);
  return at >= 0;
}, text instanceof RegExp ? [text.source, text.flags] : [text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i"]);
