// What stories of an operator at the console begin with.
import assert from "node:assert/strict";
import { accessible, faultsOf } from "./accessible.mjs";
import { browse, said as saidOn } from "./browser.mjs";

const { STORY_CONNECTION: connection, STORY_GATEWAY: gateway, STORY_SCREENSHOTS: pictures, STORY_SEE: see } = process.env;

/**
 * Tells a story of a user who has signed in, on a desktop. What the page writes to the browser's console
 * must match one of `expected`. With STORY_SEE, a directory, each `seen` leaves a picture there.
 * @param {(at: any) => Promise<void>} story
 * @param {RegExp[]} [expected]
 * @param {import("playwright-core").BrowserContextOptions} [options]
 */
export async function operate(story, expected = [], options = {}) {
  await browse(async (page, context) => {
    const faults = await faultsOf(page, gateway);
    const at = {
      page, context, gateway, connection,
      button: (name, exact = true) => page.getByRole("button", { name, exact }),
      link: (name) => page.getByRole("link", { name }),
      heading: (name) => page.getByRole("heading", { name, exact: true }),
      row: (name) => page.getByRole("row", { name }),
      dialog: page.getByRole("dialog"),
      said: (text) => saidOn(page, text),
      open: (name, tab = "") => page.goto(`http://${gateway}/#/entity/${encodeURIComponent(name)}${tab && `/${tab}`}`),
      home: (name = "") => page.goto(`http://${gateway}/#/${name}`),
      signIn: async (secret = connection) => {
        await page.getByLabel("Connection string or token").fill(secret);
        await page.keyboard.press("Enter");
      },
      /** Runs in the page with a client of the gateway: (client, argument) => … */
      client: (work, argument) => page.evaluate(`(async () => {
        const { Crosstown } = await import("/client/crosstown.js");
        const client = new Crosstown(location.origin, { connectionString: ${JSON.stringify(connection)} });
        try {
          return await (${work})(client, ${JSON.stringify(argument)});
        } finally {
          await client.close();
        }
      })()`),
      /** What is on the page is accessible, and as wide as the screen. */
      seen: async (name) => {
        await accessible(page, name);
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, `${name} is wider than the screen`);
        if (see) await page.screenshot({ path: `${see}/${name.replaceAll(/\W+/g, "-")}.png` });
      },
      picture: async (name) => { if (pictures) await page.screenshot({ path: `${pictures}/${name}.png` }); },
      phone: (width = 390) => page.setViewportSize({ width, height: 844 }),
      desktop: () => page.setViewportSize({ width: 1280, height: 800 }),
    };
    await at.home();
    await at.signIn();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await story(at);
    assert.deepEqual(faults.filter((fault) => !expected.some((e) => e.test(fault))), []);
  }, { viewport: { width: 1280, height: 800 }, locale: "en-GB", timezoneId: "UTC", ...options });
  console.log("told");
}
