// Moving, dead-lettering and removing messages by their numbers, which the gateway does without going through the queue.
import { bus, session } from "./session.js";
import { ask, pathOf } from "./adminapi.js";

// Messages of one request. While they stay here, one request should have all that were chosen of a session:
// between two of them a receiver may take it.
const together = (to) => (to ? 50 : 1000);

/** Moves messages `to` an entity, or has them `deadLetter`ed, or else removes them: those that are given, or the first `count`. */
export class Mover {
  cancelled = false;

  constructor(entity, { messages, count, ...request }) {
    this.path = `messages/${pathOf(entity)}`;
    this.entity = entity;
    this.chosen = messages?.map((m) => m.sequenceNumber);
    this.left = count ?? this.chosen.length;
    this.request = request;
  }

  /** The numbers that are next, behind those before. */
  async next(before) {
    const most = Math.min(together(this.request.to), this.left);
    if (this.chosen) return this.chosen.splice(0, most);
    return (await bus().peek(this.entity, { from: before + 1, max: most, bodies: "binary" })).map((m) => m.sequenceNumber);
  }

  /** Calls tell({done, failed}) after each request, and resolves to the last. */
  async run(tell) {
    const mine = session.value, state = { done: 0, failed: [] };
    for (let numbers = [0]; this.left > 0 && !this.cancelled && session.value === mine;) {
      numbers = await this.next(numbers.at(-1));
      if (numbers.length === 0) break;
      const { moved, absent = [], refused = [] } = await ask(this.path, { method: "POST", body: JSON.stringify({ ...this.request, numbers }) });
      this.left -= numbers.length;
      state.done += moved;
      for (const number of absent) state.failed.push({ number, text: "the message is not here any more, or another receiver has locked it." });
      for (const { number, error } of refused) state.failed.push({ number, text: error });
      tell({ ...state, failed: [...state.failed] });
    }
    return state;
  }
}
