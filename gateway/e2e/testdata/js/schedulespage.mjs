// The console's page of schedules. A minute passes until the one without a queue has a problem.
import { operate } from "./operator.mjs";

await operate(async ({ link, row, seen, phone, desktop, heading }) => {
  await link("Schedules").click();
  await row(/^lost \* \* \* \* \* UTC nosuch – .*could not be found/).waitFor({ timeout: 90_000 });
  await row(/^reports 0 6 \* \* MON-FRI Europe\/Berlin orders – .* –/).waitFor();
  await seen("schedules");
  await phone();
  await seen("schedules on a phone");
  await desktop();
  await link("Overview").click();
  await row(/^lost schedule does not send: .*could not be found/).waitFor();
  await link("Schedules").click();
  await link("orders").last().click();
  await heading("orders").waitFor();
});
