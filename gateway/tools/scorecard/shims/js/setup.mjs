// Tests draw the kind of their entity while they are collected, and name
// themselves after it. The draw is the same in every run, so that the names are.
import { beforeAll } from "vitest";

const random = Math.random;
let state = 1;
Math.random = () => {
  state = (Math.imul(state, 1103515245) + 12345) >>> 0;
  return state / 2 ** 32;
};
beforeAll(() => {
  Math.random = random;
});
