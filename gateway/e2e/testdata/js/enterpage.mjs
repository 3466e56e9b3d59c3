// An operator works in any namespace from one sign-in, whether it is configured or made at run time.
import assert from "node:assert/strict";
import { operate } from "./operator.mjs";

// A page may ask about a deleted namespace until its connection ends: which comes first depends on the moment.
const asksTheDeleted = /^404 \/\$crosstown\/(status|clock)$/;

await operate(async ({ page, home, open, button, link, row, said, seen, client, phone, desktop, dialog, heading, signIn }) => {
  const here = (name) => page.getByTitle("Namespace", { exact: true }).getByText(name, { exact: true }).waitFor();
  const workIn = async (name) => {
    await home(`namespaces/${name}`);
    await button("Work here").click();
    await said(`You work in ${name}.`);
    await here(name);
  };
  await client(async (bus) => {
    await bus.create("queue", "inbox");
    await bus.fetch("/$crosstown/namespaces/lab", { method: "PUT", body: JSON.stringify({ virtualTime: true }) });
  });
  await button("Sign out").click();
  await page.getByLabel("Remember in this tab").check();
  await signIn();
  await heading("Overview").waitFor();

  // A configured namespace, whose keys nobody is told.
  await workIn("rented");
  await link(/^news/).waitFor();
  await page.getByTitle("RootManageSharedAccessKey", { exact: true }).waitFor();
  await open("inbox", "messages");
  await button("Send").click();
  await dialog.getByLabel("Content", { exact: true }).fill('{"rent": 1}');
  await dialog.getByRole("button", { name: "Send", exact: true }).click();
  await row(/\{"rent": 1\}/).waitFor();
  await seen("another namespace");
  await phone();
  await seen("another namespace on a phone");
  await desktop();
  await button("Receive").click();
  await dialog.getByRole("button", { name: "Receive", exact: true }).click();
  await heading("Received, locked for you").waitFor();

  // A page that is loaded anew is there still; the namespaces of the gateway are, too.
  await page.reload();
  await here("rented");
  await row(/\{"rent": 1\}/).waitFor();
  await button("Receive").waitFor();
  await link("Namespaces").click();
  await row(/^rented configured you are here/).waitFor();
  await page.getByRole("navigation", { name: "Entities" }).getByRole("link", { name: "Gateway" }).click();
  await heading("Program").waitFor();

  // Back home, what was received elsewhere is not shown for the queue of the same name.
  await button("Back to sbemulatorns").click();
  await here("sbemulatorns");
  await open("inbox", "messages");
  await heading("No messages").waitFor();
  assert.equal(await heading("Received, locked for you").count(), 0);

  // One that was made at run time, with its clock; when it is deleted, the operator is back home.
  await workIn("lab");
  await link("Time and faults").click();
  await button("Freeze").click();
  await page.getByRole("link", { name: "time is frozen" }).waitFor();
  await client((bus) => bus.fetch("/$crosstown/namespaces/lab", { method: "DELETE" }));
  await said("Back in sbemulatorns: The namespace 'lab' was deleted.");
  await here("sbemulatorns");

  // A manager of a namespace has no way into another.
  await button("Sign out").click();
  await signIn(process.env.STORY_TENANT);
  await here("rented");
  assert.equal(await link("Namespaces").count(), 0);
  const refused = await page.evaluate(async (connectionString) => {
    const { Crosstown } = await import("/client/crosstown.js");
    const error = await new Crosstown(location.origin, { connectionString, namespace: "sbemulatorns" }).ready.catch((e) => e);
    const bus = new Crosstown(location.origin, { connectionString });
    const answer = await bus.fetch("/$crosstown/status", { headers: { "Crosstown-Namespace": "sbemulatorns" } });
    await bus.close();
    return [error.code, answer.status];
  }, process.env.STORY_TENANT);
  assert.deepEqual(refused, ["unauthorized", 401]);
}, [/^401 \/\$crosstown\/status$/, asksTheDeleted]);
