// What every page of the console must be.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Looks for what people with other senses would stumble over, in light and in dark. */
export async function accessible(page, where) {
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    const serious = violations.filter((v) => ["serious", "critical"].includes(v.impact));
    assert.deepEqual(serious.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" ")}`), [], `${where}, ${colorScheme}`);
  }
}

/**
 * What the page complains of, asks others than the gateway for, or does against its content policy, as it happens. A
 * refused request is "STATUS PATH".
 */
export async function faultsOf(page, gateway) {
  const faults = [];
  page.on("console", (line) => ["error", "warning"].includes(line.type()) && faults.push(faultOf(line)));
  page.on("request", (request) => request.url().startsWith("data:") || new URL(request.url()).host === gateway || faults.push(`asked for ${request.url()}`));
  await page.addInitScript(() => addEventListener("securitypolicyviolation", (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI}`)));
  return faults;
}

function faultOf(line) {
  const status = /^Failed to load resource: the server responded with a status of (\d+) /.exec(line.text())?.[1];
  return status ? `${status} ${decodeURIComponent(new URL(line.location().url).pathname)}` : line.text();
}
