// @ts-check
/**
 * Crosstown's client for pages and for Node 18 and newer: queues, topics and
 * subscriptions over one WebSocket. One file, no dependencies.
 *
 *     import { Crosstown } from "/client/crosstown.js";
 *
 *     const bus = new Crosstown({ connectionString });
 *     await bus.send("orders", { json: { total: 12.5 }, properties: { region: "north" } });
 *     for await (const message of bus.receive("orders")) {
 *       console.log(message.body);
 *       await message.complete();
 *     }
 *
 * All durations are in seconds.
 *
 * @module
 */

const subprotocol = "crosstown.v1.json";
const path = "/$crosstown/ws";

// ---------------------------------------------------------------- errors

/**
 * A refusal of the gateway, with one of its codes, or one of the client's own:
 * `connection_lost`, and `closed` for what is asked of a client that is closed.
 */
export class CrosstownError extends Error {
  /**
   * @param {string} code
   * @param {string} text
   * @param {{retriable?: boolean, unknownOutcome?: boolean, tracking?: string}} [about]
   */
  constructor(code, text, about = {}) {
    super(text);
    this.name = "CrosstownError";
    /** A word such as `lock_lost`: the same as in every protocol. */
    this.code = code;
    /** Whether the same request may be made again, and may succeed then. */
    this.retriable = about.retriable ?? false;
    /**
     * Whether the request may have been carried out all the same: it was sent,
     * and no answer came.
     */
    this.unknownOutcome = about.unknownOutcome ?? false;
    /** By which the gateway's log tells of it; "" for errors of the client's own. */
    this.tracking = about.tracking ?? "";
  }

  /** What the gateway or this client says, for people. */
  get text() {
    return this.message;
  }
}

/** @param {string} text */
const invalid = (text) => new CrosstownError("invalid_argument", text);

/** @param {any} e @returns {CrosstownError} */
const asError = (e) => (e instanceof CrosstownError ? e : new CrosstownError(e.code ?? "internal", e.text ?? String(e?.message ?? e), e));

/** @param {number} seconds Infinity is 24 days, which no page lives to see @param {() => void} f @returns {any} what clearTimeout takes */
const after = (seconds, f) => setTimeout(f, Math.min(seconds * 1000, 2 ** 31 - 1));

// ---------------------------------------------------------------- values

/**
 * @typedef {"int"|"short"|"byte"|"uint"|"ushort"|"ubyte"|"ulong"|"float"|"double"|"decimal32"|"decimal64"|"decimal128"
 *   |"uuid"|"symbol"|"char"|"array"|"described"|"timestamp"} ValueType
 */

/**
 * A value of an AMQP type that JavaScript has no type of its own for. Plain
 * values need no such thing: a whole number or a BigInt is a long, any other
 * number a double, a Date a timestamp, a Uint8Array binary, null, booleans and
 * strings what they are; in bodies, an array is a list, an object or a Map a map.
 * What is received has the same forms, so sending it again changes no type.
 */
export class Value {
  /**
   * @param {ValueType} type
   * @param {any} value
   */
  constructor(type, value) {
    this.type = type;
    this.value = value;
    Object.freeze(this);
  }

  /** @param {number} n */
  static int(n) { return new Value("int", n); }
  /** @param {number} n */
  static short(n) { return new Value("short", n); }
  /** @param {number} n */
  static byte(n) { return new Value("byte", n); }
  /** @param {number} n */
  static uint(n) { return new Value("uint", n); }
  /** @param {number} n */
  static ushort(n) { return new Value("ushort", n); }
  /** @param {number} n */
  static ubyte(n) { return new Value("ubyte", n); }
  /** @param {number | bigint} n */
  static ulong(n) { return new Value("ulong", BigInt(n)); }
  /** @param {number} n */
  static float(n) { return new Value("float", n); }
  /** A double that has no fraction: a plain 3 is a long. @param {number} n */
  static double(n) { return new Value("double", n); }
  /** @param {string} digits the bytes of IEEE 754, as 8 hexadecimal digits */
  static decimal32(digits) { return new Value("decimal32", digits); }
  /** @param {string} digits the bytes of IEEE 754, as 16 hexadecimal digits */
  static decimal64(digits) { return new Value("decimal64", digits); }
  /** @param {string} digits the bytes of IEEE 754, as 32 hexadecimal digits */
  static decimal128(digits) { return new Value("decimal128", digits); }
  /** @param {string} text such as 00112233-4455-6677-8899-aabbccddeeff */
  static uuid(text) { return new Value("uuid", text); }
  /** @param {string} text */
  static symbol(text) { return new Value("symbol", text); }
  /** @param {string} text one character */
  static char(text) { return new Value("char", text); }
  /**
   * In bodies only. Elements of types that need a Value elsewhere are given bare: `Value.array("int", [1, 2])`.
   * @param {string} type of each element
   * @param {any[]} elements
   * @param {any} [descriptor] of each element
   */
  static array(type, elements, descriptor) {
    return new Value("array", descriptor === undefined ? [type, elements] : [type, elements, descriptor]);
  }
  /** @param {any} descriptor @param {any} value */
  static described(descriptor, value) { return new Value("described", [descriptor, value]); }

  valueOf() { return this.value; }
  toString() { return String(this.value); }
  /** The form that it has in frames. */
  toJSON() { return encodeValue(this); }
}

/** @param {Uint8Array} bytes */
function base64(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(text);
}

/** @param {any} v a Uint8Array, another view, or an ArrayBuffer */
const bytesOf = (v) => (ArrayBuffer.isView(v) ? new Uint8Array(v.buffer, v.byteOffset, v.byteLength) : new Uint8Array(v));

/** @param {string} text in base64 */
function unbase64(text) {
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** @param {object} o @param {(v: any) => any} f */
const mapValues = (o, f) => Object.fromEntries(Object.entries(o).map(([k, v]) => [k, f(v)]));

/** @param {number} n as JSON keeps it: what JSON has no number for is a text */
const plainNumber = (n) => (Object.is(n, -0) ? "-0" : Number.isFinite(n) ? n : String(n));

/**
 * The form that a value has in frames.
 * @param {any} v
 * @returns {any}
 */
export function encodeValue(v) {
  switch (typeof v) {
    case "string":
    case "boolean":
      return v;
    case "bigint":
      return Number.isSafeInteger(Number(v)) ? Number(v) : { $long: String(v) };
    case "number": {
      const asLong = Number.isSafeInteger(v) && !Object.is(v, -0);
      return asLong || (Number.isFinite(v) && !Number.isInteger(v)) ? v : { $double: plainNumber(v) };
    }
    case "object":
      return encodeObject(v);
    default:
      throw invalid(`A ${typeof v} is not a value that a message can carry.`);
  }
}

/** @param {any} v @returns {any} */
function encodeObject(v) {
  if (v === null) return null;
  if (v instanceof Value) return { [`$${v.type}`]: encodeInner(v) };
  if (v instanceof Date) {
    const text = instant(v);
    return { $timestamp: /^\d{4}-/.test(text) ? text : v.getTime() };
  }
  if (ArrayBuffer.isView(v) || v instanceof ArrayBuffer) return { $binary: base64(bytesOf(v)) };
  if (Array.isArray(v)) return v.map(encodeValue);
  if (v instanceof Map || Object.keys(v).some((k) => k.startsWith("$"))) return { $map: encodePairs(v) };
  return mapValues(v, encodeValue);
}

/** @param {Map<any, any> | Record<string, any>} map */
const encodePairs = (map) => (map instanceof Map ? [...map] : Object.entries(map)).map((pair) => pair.map(encodeValue));

/** @param {Value} v @returns {any} what stands behind the tag */
function encodeInner({ type, value }) {
  if (type === "array") {
    const [elementType, elements, ...descriptor] = value;
    return [elementType, elements.map((/** @type {any} */ e) => encodeElement(elementType, e)), ...descriptor.map(encodeValue)];
  }
  if (type === "described") return value.map(encodeValue);
  if (typeof value === "bigint") return String(value);
  return typeof value === "number" ? plainNumber(value) : value;
}

/** Types whose values are no Value. */
const natural = new Set(["null", "boolean", "string", "long", "timestamp", "binary", "list"]);

/** @param {string} type @param {any} e @returns {any} an array's element, as it stands behind its tag */
function encodeElement(type, e) {
  if (type === "map") return encodePairs(e);
  if (!natural.has(type)) return encodeInner(new Value(/** @type {ValueType} */ (type), e));
  const frame = encodeValue(e);
  return frame === null || typeof frame !== "object" || Array.isArray(frame) ? frame : Object.values(frame)[0];
}

/**
 * The value that a frame holds: the inverse of encodeValue.
 * @param {any} v
 * @returns {any}
 */
export function decodeValue(v) {
  if (v === null || typeof v !== "object") return v;
  if (Array.isArray(v)) return v.map(decodeValue);
  const [key, ...more] = Object.keys(v);
  if (key === undefined || more.length > 0 || !key.startsWith("$")) return mapValues(v, decodeValue);
  return untag(key.slice(1), v[key]);
}

/** @param {string} type @param {any} inner what stands behind the tag @returns {any} */
function untag(type, inner) {
  switch (type) {
    case "null":
    case "boolean":
    case "string":
      return inner;
    case "list":
      return inner.map(decodeValue);
    case "long":
      return Number.isSafeInteger(Number(inner)) ? Number(inner) : BigInt(inner);
    case "ulong":
      return Value.ulong(inner);
    case "double":
      return Number.isFinite(Number(inner)) ? Value.double(Number(inner)) : Number(inner);
    case "timestamp": {
      const at = new Date(inner);
      return Number.isNaN(at.getTime()) ? new Value("timestamp", inner) : at;
    }
    case "binary":
      return unbase64(inner);
    case "map":
      return new Map(inner.map((/** @type {any[]} */ pair) => pair.map(decodeValue)));
    case "array": {
      const [elementType, elements, ...descriptor] = inner;
      const bare = (/** @type {any} */ e) => (e instanceof Value ? e.value : e);
      return new Value("array", [elementType, elements.map((/** @type {any} */ e) => bare(untag(elementType, e))), ...descriptor.map(decodeValue)]);
    }
    case "described":
      return new Value("described", inner.map(decodeValue));
    default:
      return new Value(/** @type {ValueType} */ (type), typeof inner === "string" && isNumeric.has(type) ? Number(inner) : inner);
  }
}

const isNumeric = new Set(["int", "short", "byte", "uint", "ushort", "ubyte", "float"]);

/** @param {Date | string} when */
function instant(when) {
  const at = new Date(when);
  if (Number.isNaN(at.getTime())) throw invalid(`${when} is not an instant.`);
  return at.toISOString();
}

// -------------------------------------------------------------- messages

/**
 * Broker properties by their Service Bus names. Instants are RFC 3339 texts (a
 * Date may be given), `TimeToLive` is in seconds. A sender sets the first twelve.
 *
 * @typedef {object} BrokerProperties
 * @property {any} [MessageId] a text; one that an AMQP sender gave another type is a Value
 * @property {any} [CorrelationId] likewise
 * @property {string} [SessionId]
 * @property {string} [ReplyToSessionId]
 * @property {string} [Label]
 * @property {string} [To]
 * @property {string} [ReplyTo]
 * @property {string} [ContentType]
 * @property {string} [PartitionKey]
 * @property {string} [ViaPartitionKey]
 * @property {number} [TimeToLive]
 * @property {string | Date} [ScheduledEnqueueTimeUtc]
 * @property {number} [SequenceNumber]
 * @property {number} [EnqueuedSequenceNumber]
 * @property {string} [EnqueuedTimeUtc]
 * @property {string} [ExpiresAtUtc]
 * @property {number} [DeliveryCount] counts this delivery
 * @property {string} [LockToken]
 * @property {string} [LockedUntilUtc]
 * @property {"Active" | "Deferred" | "Scheduled"} [State]
 * @property {string} [DeadLetterSource]
 */

/**
 * What is sent: a body in at most one form, and properties. A received message
 * may be sent again as it is; a string alone is a `text` body, a Uint8Array a
 * `binary` one.
 *
 * @typedef {object} OutgoingMessage
 * @property {BrokerProperties} [broker]
 * @property {Record<string, any>} [properties] user properties, see Value
 * @property {string} [text] UTF-8 text
 * @property {any} [json] anything that JSON can say
 * @property {Uint8Array | ArrayBuffer} [binary] bytes
 * @property {any} [value] an AMQP value, see Value
 * @property {any[][]} [sequence] AMQP sequences
 */

const members = new Set(["broker", "properties", "text", "json", "binary", "value", "sequence"]);

/** @param {BrokerProperties} broker */
const encodeBroker = (broker) => Object.fromEntries(Object.entries(broker).map(([name, v]) =>
  [name, v !== undefined && /^(Message|Correlation)Id$/.test(name) ? encodeValue(v) : v instanceof Date ? instant(v) : v]));

/**
 * @param {OutgoingMessage | string | Uint8Array} message
 * @returns {Record<string, any>}
 */
function encodeMessage(message) {
  if (typeof message === "string") return { text: message };
  if (ArrayBuffer.isView(message)) return { binary: base64(bytesOf(message)) };
  const unknown = Object.keys(message).find((name) => !members.has(name));
  if (unknown !== undefined) throw invalid(`A message has no member ${unknown}: it has ${[...members].join(", ")}.`);
  return {
    broker: message.broker && encodeBroker(message.broker),
    properties: message.properties && mapValues(message.properties, encodeValue),
    text: message.text,
    json: message.json,
    binary: message.binary && base64(bytesOf(message.binary)),
    value: message.value === undefined ? undefined : encodeValue(message.value),
    sequence: message.sequence?.map((list) => list.map(encodeValue)),
  };
}

/** A message as it was peeked, or received and deleted. */
export class Message {
  /** Messages come from a Crosstown. @param {any} frame */
  constructor(frame) {
    /** @type {BrokerProperties} */
    this.broker = frame.broker ?? {};
    if (this.broker.MessageId !== undefined) this.broker.MessageId = decodeValue(this.broker.MessageId);
    if (this.broker.CorrelationId !== undefined) this.broker.CorrelationId = decodeValue(this.broker.CorrelationId);
    /** User properties, see Value. @type {Record<string, any>} */
    this.properties = mapValues(frame.properties ?? {}, decodeValue);
    /** The body, if its content type says that it is text. @type {string | undefined} */
    this.text = frame.text;
    /** The body, if its content type says that it is JSON. @type {any} */
    this.json = frame.json;
    /** The body's bytes, if nothing better is known. @type {Uint8Array | undefined} */
    this.binary = frame.binary === undefined ? undefined : unbase64(frame.binary);
    /** The body of an AMQP sender that sent a value. @type {any} */
    this.value = frame.value === undefined ? undefined : decodeValue(frame.value);
    /** The body of an AMQP sender that sent sequences. @type {any[][] | undefined} */
    this.sequence = frame.sequence?.map((/** @type {any[]} */ list) => list.map(decodeValue));
  }

  /** The body in the form that it has; undefined if it has none. @returns {any} */
  get body() {
    return [this.text, this.json, this.binary, this.value, this.sequence].find((body) => body !== undefined);
  }

  /** @returns {number} */
  get sequenceNumber() {
    return this.broker.SequenceNumber ?? 0;
  }
}

/**
 * @typedef {"complete" | "abandon" | "defer" | "deadLetter" | "release"} Outcome
 */

/**
 * A message under lock: nobody else gets it until it is settled or its lock ends.
 *
 * Each way to settle rejects with `lock_lost` if the lock has ended, and with
 * `connection_lost` and `unknownOutcome` if the connection broke before the
 * answer came. Asking again is safe then: `lock_lost` may mean that the first
 * time was carried out.
 */
export class Delivery extends Message {
  /** @type {{locks: Locks, origin: Origin, token: string, until: Date}} */
  #lock;

  /** Deliveries come from a Crosstown. @param {any} frame @param {any} locks @param {any} origin */
  constructor(frame, locks, origin) {
    super(frame);
    this.#lock = { locks, origin, token: this.broker.LockToken ?? "", until: new Date(this.broker.LockedUntilUtc ?? 0) };
  }

  get lockToken() { return this.#lock.token; }

  /** When the lock ends, by the gateway's clock; renewals move it. */
  get lockedUntil() { return this.#lock.until; }

  /** Done: the message is removed. @returns {Promise<void>} */
  complete() { return this.#settle("complete"); }

  /** Back to the queue, for whoever comes next. @param {Record<string, any>} [properties] to overwrite @returns {Promise<void>} */
  abandon(properties) { return this.#settle("abandon", { properties }); }

  /** Set aside, for receiveDeferred with its sequence number. @param {Record<string, any>} [properties] to overwrite @returns {Promise<void>} */
  defer(properties) { return this.#settle("defer", { properties }); }

  /**
   * To the dead-letter queue.
   * @param {{reason?: string, description?: string, properties?: Record<string, any>}} [why]
   * @returns {Promise<void>}
   */
  deadLetter(why = {}) { return this.#settle("deadLetter", why); }

  /** As abandon, without counting the delivery. @returns {Promise<void>} */
  release() { return this.#settle("release"); }

  /** Extends the lock by the entity's lock duration. @returns {Promise<Date>} until when */
  async renew() {
    const { locks, origin } = this.#lock;
    const [until] = await locks.renewAll(origin.entity, [this]);
    if (until instanceof CrosstownError) throw until;
    return until;
  }

  /**
   * @param {Outcome} outcome
   * @param {Omit<Settlement, "lockToken" | "outcome">} [rest]
   */
  #settle(outcome, rest) {
    return this.#lock.locks.settle(this, this.#lock.origin, { lockToken: this.#lock.token, outcome, ...rest });
  }
}

/**
 * @typedef {object} Settlement
 * @property {string} lockToken
 * @property {Outcome} outcome
 * @property {Record<string, any>} [properties] user properties to overwrite, with abandon, defer and deadLetter
 * @property {string} [reason] with deadLetter
 * @property {string} [description] with deadLetter
 */

/**
 * Where a delivery came from: an entity and, while it is there, its feed.
 *
 * @typedef {{entity: string, feed?: () => number | undefined, only?: () => boolean}} Origin only: in the feed or nowhere
 */

/** The largest number of items in one request. */
const maxItems = 4500;

/** The greatest instant. */
const endOfTime = "9999-12-31T23:59:59.999Z";

/** What is held under lock: settled in batches, renewed in time. */
class Locks {
  #wire;
  /** @type {Map<Origin, {settlement: object, resolve: () => void, reject: (e: any) => void}[]>} */
  #asked = new Map();
  /** @type {Map<Delivery, {entity: string, giveUp: number, due: number}>} by the local clock, in ms */
  #kept = new Map();
  /** @type {{due: number, id: any} | undefined} */
  #timer;

  /** @param {Wire} wire */
  constructor(wire) {
    this.#wire = wire;
  }

  /**
   * Settles together what is asked for in one turn of the event loop.
   * @param {Delivery | undefined} delivery
   * @param {Origin} origin
   * @param {Settlement} s
   * @returns {Promise<void>}
   */
  async settle(delivery, origin, s) {
    const settlement = { ...s, properties: s.properties && mapValues(s.properties, encodeValue) };
    const kept = delivery && this.#kept.get(delivery);
    if (delivery) this.#kept.delete(delivery);
    try {
      await new Promise((/** @type {(v: void) => void} */ resolve, reject) => {
        if (this.#asked.size === 0) queueMicrotask(() => this.flush());
        const batch = this.#asked.get(origin) ?? [];
        this.#asked.set(origin, batch);
        batch.push({ settlement, resolve, reject });
      });
    } catch (e) {
      if (kept && asError(e).retriable) this.#keep(delivery, { ...kept, due: this.#wire.renewal(delivery.lockedUntil) });
      throw e;
    }
  }

  /** Sends what was asked for. */
  flush() {
    const asked = this.#asked;
    this.#asked = new Map();
    for (const [origin, batch] of asked) {
      for (let at = 0; at < batch.length; at += maxItems) void this.#send(origin, batch.slice(at, at + maxItems));
    }
  }

  /** @param {Origin} origin @param {{settlement: object, resolve: () => void, reject: (e: any) => void}[]} batch */
  async #send(origin, batch) {
    const feed = origin.feed?.(), { entity } = origin, settlements = batch.map((b) => b.settlement);
    const ask = (/** @type {object} */ where) => this.#wire.request("settle", { ...where, settlements }, { again: "safe" });
    try {
      const { results } = await (feed === undefined ? ask({ entity })
        // The gateway may just have ended the feed: the locks outlive it.
        : ask({ feed }).catch((e) => {
          if (e.code !== "not_found") throw e;
          if (origin.only?.()) throw new CrosstownError("session_lock_lost", `The session of the feed on ${entity} is no longer held by this client.`);
          return ask({ entity });
        }));
      batch.forEach((b, i) => (results[i] ? b.reject(asError(results[i])) : b.resolve()));
    } catch (e) {
      batch.forEach((b) => b.reject(e));
    }
  }

  /**
   * @param {string} entity
   * @param {string[]} lockTokens
   * @returns {Promise<(Date | CrosstownError)[]>}
   */
  async renew(entity, lockTokens) {
    const { results } = await this.#wire.request("renew", { entity, lockTokens }, { again: "repeat" });
    return results.map((/** @type {any} */ r) => (r.lockedUntil ? new Date(r.lockedUntil) : asError(r)));
  }

  /** @param {string} entity @param {Delivery[]} deliveries @returns {Promise<(Date | CrosstownError)[]>} */
  async renewAll(entity, deliveries) {
    const results = await this.renew(entity, deliveries.map((d) => d.lockToken));
    deliveries.forEach((d, i) => results[i] instanceof Date && d.lockedUntil.setTime(results[i].getTime()));
    return results;
  }

  /** Renews the lock of a delivery until it is settled, or for so long. @param {Delivery} delivery @param {string} entity @param {number} seconds */
  keep(delivery, entity, seconds) {
    this.#keep(delivery, { entity, giveUp: Date.now() + seconds * 1000, due: this.#wire.renewal(delivery.lockedUntil) });
  }

  /** @param {Delivery} delivery @param {{entity: string, giveUp: number, due: number}} how */
  #keep(delivery, how) {
    this.#kept.set(delivery, how);
    this.#plan(how.due);
  }

  stop() {
    this.#kept.clear();
    clearTimeout(this.#timer?.id);
  }

  /** @param {number} due */
  #plan(due) {
    if (due === Infinity || (this.#timer && this.#timer.due <= due)) return;
    clearTimeout(this.#timer?.id);
    this.#timer = { due, id: setTimeout(() => this.#renewDue(), Math.max(due - Date.now(), 0)) };
  }

  #renewDue() {
    this.#timer = undefined;
    const now = Date.now();
    let next = Infinity;
    /** @type {Map<string, Delivery[]>} */
    const due = new Map();
    for (const [delivery, kept] of this.#kept) {
      if (kept.giveUp <= now) {
        this.#kept.delete(delivery);
      } else if (kept.due > now + 500) {
        next = Math.min(next, kept.due);
      } else {
        kept.due = Infinity; // until the answer comes
        const same = due.get(kept.entity);
        if (same && same.length < maxItems) same.push(delivery);
        else if (same) next = kept.due = now;
        else due.set(kept.entity, [delivery]);
      }
    }
    for (const [entity, deliveries] of due) void this.#renewThese(entity, deliveries);
    this.#plan(next);
  }

  /** @param {string} entity @param {Delivery[]} deliveries */
  async #renewThese(entity, deliveries) {
    /** @type {(Date | CrosstownError)[]} */
    let results;
    try {
      results = await this.renewAll(entity, deliveries);
    } catch (e) {
      results = deliveries.map(() => asError(e));
    }
    deliveries.forEach((delivery, i) => {
      const result = results[i], kept = this.#kept.get(delivery);
      if (!kept) return; // settled meanwhile
      if (result instanceof CrosstownError && !result.retriable) return this.#kept.delete(delivery);
      kept.due = result instanceof Date ? this.#wire.renewal(result) : Date.now() + 1000;
      this.#plan(kept.due);
    });
  }
}

// ------------------------------------------------------------ connection

/**
 * What is told of the connection.
 *
 * @typedef {object} Events
 * @property {{connection: string, again: boolean} & Rights} open signed in; `again` after the first time
 * @property {{code: number, error: CrosstownError, retryIn: number | null}} close the connection ended, with a
 *   WebSocket close code; `retryIn` says when the next attempt is made, null that none is
 * @property {{expires: Date}} expiring the last right ends in a minute, and this client cannot renew it by itself:
 *   give a new token to signIn
 */

/**
 * @typedef {object} Rights
 * @property {string} namespace
 * @property {boolean} operator whether they are those of who runs the gateway, with all of its namespaces
 * @property {string} policy
 * @property {string} scope the path that the rights are for; "" is the namespace
 * @property {("Send" | "Listen" | "Manage")[]} rights
 * @property {Date | null} expires
 */

/**
 * @typedef {object} Reconnect
 * @property {number} [minDelay] 0.25 by default; doubled at each attempt, and shortened by up to a half at random
 * @property {number} [maxDelay] 30 by default
 * @property {number} [attempts] in a row, without end by default
 * @property {boolean} [initially] whether also the first connection is tried again; false by default, so that `ready`
 *   tells a wrong address at once
 */

/**
 * A shared access signature or a JSON web token, or several for the rights of all.
 *
 * @typedef {string | string[]} Tokens
 */

/**
 * @typedef {object} Options
 * @property {string} [connectionString] with a key, which signs tokens here and never leaves this object, or with a
 *   SharedAccessSignature
 * @property {Tokens} [token]
 * @property {() => Tokens | Promise<Tokens>} [getToken] asked at each connection and before the last right ends
 * @property {string} [namespace] another one, which an operator of the gateway enters with the same rights
 * @property {Reconnect | false} [reconnect]
 * @property {number} [timeout] for a request, 60 by default
 * @property {any} [WebSocket] a class to use instead of the global one, such as that of the package `ws` in Node 18 and 20
 */

/** Close codes after which connecting again would be in vain. */
const final = new Set([1003, 1007, 1009, 4400, 4404]);

/** A connection that has stood for so long, in ms, did not fail at once: the delays begin anew. */
const stood = 5000;

/**
 * How a connection treats what was sent and not answered when it broke: "repeat"
 * asks again by itself, which only what changes nothing may; else the request is
 * rejected, and "safe" says that the caller may ask again.
 *
 * @typedef {"repeat" | "safe" | "unsafe"} Again
 */

/**
 * @typedef {object} Pending
 * @property {string} op
 * @property {string} text the frame
 * @property {boolean} sent
 * @property {Again} again
 * @property {boolean} bound to the connection: not kept for another
 * @property {number} asked by the local clock, in ms
 * @property {any} timer
 * @property {(answer: any) => void} resolve
 * @property {(e: any) => void} reject
 */

/**
 * What is opened anew on every connection.
 *
 * @typedef {object} Subscriber
 * @property {() => void} signedIn
 * @property {() => void} lost the connection is; another will follow
 * @property {(messages: any[]) => void} deliver
 * @property {(e: CrosstownError) => void} ended by the gateway, or because there will be no connection any more
 * @property {() => Promise<unknown>} close
 */

/** The connection: made again when it breaks, with what waits for it. */
class Wire {
  /** @type {Map<number, Subscriber>} */
  #subscribers = new Map();
  /** @type {Map<number, Pending>} */
  #pending = new Map();
  #ids = 0;
  #feeds = 0;
  /** @type {any} */
  #socket;
  /** @type {"connecting" | "open" | "waiting" | "closed"} */
  state = "connecting";
  /** @type {CrosstownError | undefined} */
  #error;
  /** @type {Map<string, string>} tokens given besides, by scope and policy */
  #tokens = new Map();
  #opened = 0;
  #openings = 0;
  #attempts = 0;
  #heard = 0;
  #skew = 0;
  /** @type {any} */
  #timer;
  #renewed = 0;
  #token = ""; // the one that HTTP requests carry
  #url;
  #o;
  #emit;

  /**
   * @param {string} url
   * @param {Options} options
   * @param {<T extends keyof Events>(type: T, detail: Events[T]) => void} emit
   */
  constructor(url, options, emit) {
    this.#url = url;
    this.#o = options;
    this.#emit = emit;
    /** @type {Promise<void>} */
    this.ready = new Promise((resolve, reject) => {
      this.#becomeReady = resolve;
      this.#neverReady = reject;
    });
    this.ready.catch(() => {}); // whoever asks for something learns it, too
    this.#online = () => this.state === "waiting" && this.#connect();
    globalThis.addEventListener?.("online", this.#online);
    this.#connect();
  }

  /** @type {() => void} */
  #becomeReady = () => {};
  /** @type {(e: any) => void} */
  #neverReady = () => {};
  #online;

  /** The gateway's time, in ms, as far as it is known. */
  now() {
    return Date.now() + this.#skew;
  }

  /** @param {Date} until the end of a lock @returns {number} when to renew it, by the local clock: at half of what is left */
  renewal(until) {
    return Date.now() + Math.max((until.getTime() - this.now()) / 2, 1000);
  }

  // -- requests

  /**
   * @param {string} op
   * @param {Record<string, any>} members
   * @param {{again?: Again, bound?: boolean, timeout?: number}} [how]
   * @returns {Promise<any>} the answer
   */
  request(op, members, how = {}) {
    if (this.#error) return Promise.reject(this.#error);
    if (how.bound && this.state !== "open") return Promise.reject(lost(op, false, "safe"));
    return this.#ask(op, members, how);
  }

  /** @param {string} op @param {Record<string, any>} members @param {{again?: Again, bound?: boolean, timeout?: number, before?: boolean}} how */
  #ask(op, members, { again = "unsafe", bound = false, timeout = this.#o.timeout ?? 60, before = false }) {
    return new Promise((resolve, reject) => {
      const id = ++this.#ids;
      const text = JSON.stringify({ op, id, ...members });
      const timer = after(timeout, () => this.#overdue(id));
      const p = { op, text, sent: false, again, bound, asked: Date.now(), timer, resolve, reject };
      this.#pending.set(id, p);
      if (before || this.state === "open") this.#send(p);
    });
  }

  /** @param {Pending} p */
  #send(p) {
    if (this.#socket.readyState !== 1) return; // it is closing: the next connection sends it
    p.sent = true;
    p.asked = Date.now();
    this.#socket.send(p.text);
  }

  /** @param {number} id @returns {Pending | undefined} */
  #take(id) {
    const p = this.#pending.get(id);
    this.#pending.delete(id);
    clearTimeout(p?.timer);
    return p;
  }

  /** @param {number} id */
  #overdue(id) {
    const p = /** @type {Pending} */ (this.#take(id));
    p.reject(new CrosstownError("timeout", `The gateway did not answer ${p.op} in time.`, { retriable: p.again !== "unsafe" || !p.sent, unknownOutcome: p.sent }));
    if (p.sent && this.#heard <= p.asked) this.#drop("Nothing was heard from the gateway for too long.");
  }

  /** @param {string} path @param {RequestInit} [init] @returns {Promise<Response>} */
  async fetch(path, init = {}) {
    await this.ready;
    if (this.#error) throw this.#error;
    const { origin } = new URL(this.#url.replace(/^ws/, "http")), url = new URL(path, origin);
    if (url.origin !== origin) throw invalid(`${path} is not of the gateway at ${origin}, which alone gets the token.`);
    const headers = new Headers(init.headers);
    headers.set("Authorization", this.#token.includes(" ") ? this.#token : `Bearer ${this.#token}`);
    if (this.#o.namespace) headers.set("Crosstown-Namespace", this.#o.namespace);
    try {
      return await globalThis.fetch(url, { ...init, headers });
    } catch (e) {
      if (init.signal?.aborted) throw e;
      const again = /^(GET|HEAD)$/i.test(init.method ?? "GET");
      throw new CrosstownError("connection_lost", `${path} was not answered: ${/** @type {any} */ (e).message}.`, { retriable: again, unknownOutcome: !again });
    }
  }

  /** Closes feeds, and resolves when everything asked for is answered. */
  async finish() {
    await Promise.all([...this.#subscribers.values()].map((s) => s.close()));
    const answered = (/** @type {Pending} */ p) => new Promise((/** @type {(v: void) => void} */ done) => {
      const { resolve, reject } = p;
      p.resolve = (answer) => (resolve(answer), done());
      p.reject = (e) => (reject(e), done());
    });
    await Promise.all([...this.#pending.values()].map(answered));
  }

  // -- feeds

  /** @param {Subscriber} s @returns {number} its feed's number */
  attach(s) {
    const feed = ++this.#feeds;
    this.#subscribers.set(feed, s);
    if (this.#error) queueMicrotask(() => s.ended(/** @type {CrosstownError} */ (this.#error)));
    else if (this.state === "open") queueMicrotask(() => this.state === "open" && s.signedIn());
    return feed;
  }

  /** @param {number} feed */
  detach(feed) {
    this.#subscribers.delete(feed);
  }

  // -- the life of a connection

  #connect() {
    clearTimeout(this.#timer);
    this.state = "connecting";
    const Socket = this.#o.WebSocket ?? globalThis.WebSocket;
    let socket;
    try {
      if (!Socket) throw new Error("this version of Node.js has no WebSocket: set options.WebSocket to the class of the package ws");
      socket = new Socket(this.#url, [subprotocol]);
    } catch (e) {
      this.fail(1006, invalid(`No WebSocket to ${this.#url} can be made: ${/** @type {any} */ (e).message}.`));
      return;
    }
    this.#socket = socket;
    const mine = () => this.#socket === socket;
    socket.onopen = () => mine() && this.#signIn(socket);
    socket.onmessage = (/** @type {{data: any}} */ e) => mine() && this.#hear(e.data);
    socket.onclose = (/** @type {{code: number, reason: string}} */ e) => mine() && this.#closed(e.code, String(e.reason));
    socket.onerror = () => {}; // onclose follows, and knows as much
    this.#timer = after(15, () => this.#drop("The gateway did not answer in time."));
  }

  /** @param {any} socket */
  async #signIn(socket) {
    const o = this.#o, mine = () => this.#socket === socket;
    let answer;
    try {
      const tokens = [await (o.getToken ? o.getToken() : o.token)].flat();
      if (!mine()) return;
      this.#token = String(tokens[0]);
      [answer] = await Promise.all(tokens.map((token) => this.#auth(String(token))));
      for (const [of, token] of this.#tokens) await this.#auth(token).catch((e) => this.#refused(of, e));
    } catch (e) {
      if (!mine()) return;
      const error = asError(e), refused = error.code === "unauthorized" || error.code === "invalid_argument";
      if (refused) this.fail(4401, error);
      else this.#drop(error.text);
      return;
    }
    if (!mine()) return;
    clearTimeout(this.#timer);
    this.state = "open";
    this.#opened = Date.now();
    this.#skew = answer.time ? new Date(answer.time).getTime() - this.#opened : 0;
    const again = this.#openings++ > 0;
    this.#becomeReady();
    this.#emit("open", { connection: answer.connection, again, ...rightsOf(answer) });
    for (const s of [...this.#subscribers.values()]) s.signedIn();
    for (const p of [...this.#pending.values()]) if (!p.sent) this.#send(p);
  }

  /** @param {string} token */
  #auth(token) {
    if (!this.#socket) return Promise.reject(lost("auth", false, "safe"));
    return this.#ask("auth", { token, namespace: this.#o.namespace }, { before: true, bound: true });
  }

  /** A token that was given besides may have ended: the others go on. @param {string} of @param {CrosstownError} e */
  #refused(of, e) {
    if (e.code !== "unauthorized") throw e;
    this.#tokens.delete(of);
  }

  /** @param {string} token @returns {Promise<Rights>} */
  async signIn(token) {
    await this.ready;
    const rights = rightsOf(await this.request("auth", { token, namespace: this.#o.namespace }, { again: "repeat" }));
    this.#tokens.set(`${rights.scope} ${rights.policy}`, token);
    return rights;
  }

  /** @param {string} text */
  #hear(text) {
    this.#heard = Date.now();
    const frame = JSON.parse(text);
    switch (frame.op) {
      case "ok":
        return this.#take(frame.id)?.resolve(frame);
      case "error":
        return this.#take(frame.id)?.reject(asError(frame));
      case "deliver":
        return this.#subscribers.get(frame.feed)?.deliver(frame.messages);
      case "ended":
        return this.#subscribers.get(frame.feed)?.ended(asError(frame));
      case "expiring":
        return this.#expiring(new Date(frame.expires));
      default: // bye: the close frame follows
    }
  }

  /** @param {Date} expires */
  async #expiring(expires) {
    const fresh = this.#o.getToken;
    if (!fresh) return this.#emit("expiring", { expires });
    if (Date.now() - this.#renewed < stood) return; // tokens that last no minute
    this.#renewed = Date.now();
    try {
      const tokens = [await fresh()].flat();
      this.#token = String(tokens[0]);
      for (const token of tokens) await this.#auth(token);
    } catch {
      this.#emit("expiring", { expires });
    }
  }

  /** Gives a connection up without waiting for its end. @param {string} text */
  #drop(text) {
    const socket = this.#socket;
    this.#closed(1006, text);
    socket.close();
  }

  /** @param {number} code @param {string} reason */
  #closed(code, reason) {
    clearTimeout(this.#timer);
    this.#socket = undefined;
    const o = this.#o, r = o.reconnect ?? {};
    const error = new CrosstownError(code === 4401 ? "unauthorized" : "connection_lost",
      reason || `The connection to ${this.#url} ended with code ${code}${this.#openings ? "" : ": no gateway answers there, or it does not let in pages of this origin"}.`,
      { retriable: true });
    this.#attempts = this.#opened && Date.now() - this.#opened >= stood ? 1 : this.#attempts + 1;
    this.#opened = 0;
    const renewable = code !== 4401 || o.getToken;
    if (!r || final.has(code) || !renewable || this.#attempts > (r.attempts ?? Infinity) || (this.#openings === 0 && !r.initially)) {
      return this.fail(code, error);
    }
    this.state = "waiting";
    const longest = Math.min((r.minDelay ?? 0.25) * 2 ** (this.#attempts - 1), r.maxDelay ?? 30);
    const retryIn = longest * (1 - Math.random() / 2);
    this.#timer = after(retryIn, () => this.#connect());
    this.#reject(code, (p) => (p.sent && p.again !== "repeat") || p.bound);
    for (const p of this.#pending.values()) p.sent = false;
    for (const s of [...this.#subscribers.values()]) s.lost();
    this.#emit("close", { code, error, retryIn });
  }

  /** @param {number} code @param {(p: Pending) => boolean} which */
  #reject(code, which) {
    for (const [id, p] of [...this.#pending]) if (which(p)) this.#take(id)?.reject(lost(p.op, p.sent, p.again, code));
  }

  /** Ends for good. @param {number} code @param {CrosstownError} error */
  fail(code, error) {
    if (this.#error) return;
    this.state = "closed";
    this.#error = error;
    clearTimeout(this.#timer);
    globalThis.removeEventListener?.("online", this.#online);
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.close(1000);
    this.#neverReady(error);
    this.#reject(code, (p) => p.sent);
    for (const id of [...this.#pending.keys()]) this.#take(id)?.reject(error);
    for (const s of [...this.#subscribers.values()]) s.ended(error);
    this.#emit("close", { code, error, retryIn: null });
  }
}

/** @param {string} op @param {boolean} sent @param {Again} again @param {number} [code] */
function lost(op, sent, again, code) {
  const why = code ? ` (close code ${code})` : "";
  return new CrosstownError("connection_lost", sent
    ? `The connection was lost${why} before ${op} was answered: the gateway may have carried out the operation.`
    : `The connection was lost${why}: ${op} was not sent.`, { retriable: !sent || again !== "unsafe", unknownOutcome: sent });
}

/** @param {any} answer @returns {Rights} */
const rightsOf = ({ namespace, operator, policy, scope, rights, expires }) => ({ namespace, operator, policy, scope, rights, expires: expires ? new Date(expires) : null });

// ----------------------------------------------------------------- feeds

/**
 * @typedef {object} FeedOptions
 * @property {"peekLock" | "receiveAndDelete"} [mode] peekLock by default
 * @property {number} [prefetch] how many messages may wait here; 10 by default, 0 when they are deleted as they are
 *   received: each is asked for when somebody waits for it, so that none is lost in a page that goes away
 * @property {string} [session] a session's id, which may be empty; case does not count
 * @property {boolean} [nextSession] the next session that nobody else has
 * @property {number} [wait] for a next session, 60 by default
 * @property {boolean} [exclusive] false: another receiver can take the session over, with the feed's sessionLockToken
 * @property {string} [sessionLockToken] the token of the session's lock: takes the session over from the feed that has it
 * @property {boolean} [reaccept] whether a session that was lost, with the connection or otherwise, is accepted again;
 *   by default the feed ends with session_lock_lost then
 * @property {number | false} [autoRenew] for how long messages that are not settled have their locks renewed, 300 by
 *   default; a session's lock is renewed until the feed is closed, unless this is false or 0
 * @property {"decoded" | "binary"} [bodies] binary: every body as its bytes
 * @property {string} [accept] content types, in the form of HTTP's Accept: where the gateway has serializers, bodies of
 *   others are delivered as the one liked best
 */

/**
 * A subscription to messages, as an async iterator. When the connection breaks
 * it is opened again; what was received before can be settled then as ever.
 *
 * @template {Message} [M=Delivery]
 */
export class Feed {
  /** @type {Wire} */
  #wire;
  /** @type {Locks} */
  #locks;
  /** @type {FeedOptions & {mode: string, prefetch: number, autoRenew: number | false}} */
  #options;
  #feed;
  /** @type {Origin} */
  #origin;
  /** @type {M[]} */
  #buffer = [];
  /** @type {{resolve: (r: IteratorResult<M, undefined>) => void, reject: (e: any) => void}[]} */
  #waiting = [];
  #credit = 0; // given and not used
  #asked = 0; // by take
  /** @type {() => void} */
  #arrived = () => {};
  #opening = false; // the gateway was asked
  #live = false; // the gateway has it
  #accepted = false; // the gateway has had it
  #attempts = 0;
  /** @type {any} */
  #timer;
  /** @type {Promise<M[]> | undefined} */
  #closing;
  #over = false;
  /** @type {CrosstownError | undefined} */
  #error;
  /** @type {string | undefined} */
  #session;
  /** @type {Date | undefined} */
  #lockedUntil;
  /** @type {string | undefined} */
  #sessionLockToken;
  /** @type {() => void} */
  #becomeReady = () => {};
  /** @type {(e: any) => void} */
  #neverReady = () => {};

  /** Feeds come from Crosstown.receive. @param {any} wire @param {any} locks @param {string} entity @param {FeedOptions} options */
  constructor(wire, locks, entity, options) {
    this.#wire = wire;
    this.#locks = locks;
    const mode = options.mode ?? "peekLock";
    this.#options = { mode, prefetch: mode === "peekLock" ? 10 : 0, autoRenew: 300, ...options };
    this.#session = options.session;
    // Of a session that was taken over nothing is settled here any more.
    this.#origin = { entity, feed: () => (this.#live || this.#sessionLockToken ? this.#feed : undefined), only: () => this.#sessionLockToken !== undefined };
    /** Resolves when the gateway has opened the feed, rejects if it has refused. @type {Promise<void>} */
    this.ready = new Promise((resolve, reject) => {
      this.#becomeReady = resolve;
      this.#neverReady = reject;
    });
    this.ready.catch(() => {}); // whoever reads learns it, too
    this.#feed = wire.attach({
      signedIn: () => this.#open(),
      lost: () => this.#lost(),
      deliver: (/** @type {any[]} */ messages) => this.#deliver(messages),
      ended: (/** @type {CrosstownError} */ e) => this.#ended(e),
      close: () => this.close(),
    });
  }

  get entity() { return this.#origin.entity; }

  /** The id of the session that is held, or was. */
  get session() { return this.#session; }

  /** When the session's lock ends, by the gateway's clock; renewals move it. */
  get lockedUntil() { return this.#lockedUntil; }

  /**
   * Where the session can be taken over, what another feed shows for that; only
   * who may have the session should know it. Undefined elsewhere.
   */
  get sessionLockToken() { return this.#sessionLockToken; }

  get #ofSession() { return this.#options.session !== undefined || this.#options.nextSession === true; }

  // -- reading

  /** @returns {Feed<M>} */
  [Symbol.asyncIterator]() { return this; }

  /** The next message, as soon as there is one. @returns {Promise<IteratorResult<M, undefined>>} */
  next() {
    this.#dropEnded();
    const value = this.#buffer.shift();
    if (value) {
      this.#topUp();
      return Promise.resolve({ value, done: false });
    }
    if (this.#over) {
      const e = this.#error;
      this.#error = undefined;
      return e ? Promise.reject(e) : Promise.resolve({ value: undefined, done: true });
    }
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#topUp();
    });
  }

  /** A message that waited here until its lock ended is somebody else's by now. */
  #dropEnded() {
    if (this.#options.mode !== "peekLock" || this.#ofSession) return;
    const now = new Date(this.#wire.now());
    this.#buffer = this.#buffer.filter((m) => !(m instanceof Delivery) || m.lockedUntil > now);
  }

  /** What `break` in a loop does: closes. @returns {Promise<IteratorResult<M, undefined>>} */
  async return() {
    await this.close();
    return { value: undefined, done: true };
  }

  /**
   * Up to `max` messages, in a feed with prefetch 0: as soon as there is one, or
   * none after `wait` seconds. One call at a time.
   * @param {number} max
   * @param {number} [wait] 60 by default
   * @returns {Promise<M[]>}
   */
  async take(max, wait = 60) {
    if (this.#options.prefetch > 0) throw invalid("take is for feeds with prefetch 0: others ask for messages by themselves.");
    await this.ready;
    this.#asked = max;
    /** @type {any} */
    let timer;
    if (this.#buffer.length === 0 && !this.#over) {
      await new Promise((/** @type {(v: void) => void} */ resolve) => {
        this.#arrived = resolve;
        timer = after(wait, resolve);
        this.#topUp();
      });
    }
    clearTimeout(timer);
    this.#asked = 0;
    if (this.#credit > 0) await this.#drain();
    const messages = this.#buffer.splice(0, max);
    if (messages.length === 0 && this.#error) throw this.#error;
    return messages;
  }

  async #drain() {
    try {
      const { unspent } = await this.#wire.request("drain", { feed: this.#feed }, { bound: true });
      this.#credit = Math.max(this.#credit - unspent, 0);
    } catch {
      // The connection is gone, and the credit with it.
    }
  }

  /**
   * Ends the feed. Deliveries that were not read are released; a session is given
   * back, with what was not settled.
   * @returns {Promise<M[]>} what was received and deleted, and not read
   */
  close() {
    return (this.#closing ??= this.#close());
  }

  async #close() {
    clearTimeout(this.#timer);
    this.#locks.flush();
    if (this.#live || this.#opening) await this.#wire.request("end", { feed: this.#feed }, { bound: true, again: "safe" }).catch(() => {});
    const unread = this.#buffer;
    this.#buffer = [];
    this.#finish();
    if (this.#options.mode !== "peekLock") return unread;
    const released = this.#ofSession ? [] : unread.map((d) => d instanceof Delivery && d.release());
    if (this.#wire.state === "open") await Promise.allSettled(released);
    else for (const r of released) Promise.resolve(r).catch(() => {}); // their locks may end first
    return [];
  }

  // -- sessions

  /** Extends the session's lock, which is done in time by itself unless autoRenew is off. @returns {Promise<Date>} until when */
  async renew() {
    const { lockedUntil } = await this.#bound("renewSession", {}, "safe");
    this.#hold(lockedUntil);
    return /** @type {Date} */ (this.#lockedUntil);
  }

  /** The session's state, null if there is none. @returns {Promise<Uint8Array | null>} */
  async state() {
    return decodeValue((await this.#bound("state", {}, "safe")).state);
  }

  /** Sets the session's state; null clears it. @param {Uint8Array | string | null} state */
  async setState(state) {
    await this.#bound("setState", { state: encodeValue(state) }, "safe");
  }

  /**
   * Settles by lock token, in this session, what the feed that it was taken over from had received.
   * @param {Settlement[]} settlements
   * @returns {Promise<(null | CrosstownError)[]>} in step
   */
  async settle(settlements) {
    await this.ready;
    return Promise.all(settlements.map((s) => this.#locks.settle(undefined, this.#origin, s).then(() => null, asError)));
  }

  /** As Crosstown.purge, in this session alone. @param {{before?: Date | string, max?: number}} [which] @returns {Promise<number>} how many */
  async purge({ before = endOfTime, max } = {}) {
    return (await this.#bound("purge", { before: instant(before), max }, "safe")).count;
  }

  /** As Crosstown.peek, in this session alone. @param {PeekOptions} [options] @returns {Promise<Message[]>} */
  async peek(options = {}) {
    return (await this.#bound("peek", options, "safe")).messages.map((/** @type {any} */ m) => new Message(m));
  }

  /** As Crosstown.receiveDeferred, from this session. @param {number[]} sequenceNumbers @param {DeferredOptions} [options] @returns {Promise<M[]>} */
  async receiveDeferred(sequenceNumbers, options = {}) {
    const { messages } = await this.#bound("receiveDeferred", { sequenceNumbers, ...options }, options.mode === "receiveAndDelete" ? "unsafe" : "safe");
    return messages.map((/** @type {any} */ m) => received(m, options.mode, this.#locks, this.#origin));
  }

  /** @param {string} op @param {object} more @param {Again} again */
  async #bound(op, more, again) {
    await this.ready;
    return this.#wire.request(op, { feed: this.#feed, ...more }, { bound: true, again });
  }

  // -- the life of a feed

  /** How many messages are to be on their way or waiting here. */
  get #target() {
    return Math.max(this.#options.prefetch, this.#waiting.length + this.#asked);
  }

  async #open() {
    if (this.#closing) return;
    const { mode, bodies, accept, nextSession, wait, autoRenew, exclusive, sessionLockToken } = this.#options;
    const next = nextSession && !this.#accepted; // else the one that it had
    const which = next ? { nextSession, wait, exclusive } : { session: this.#session, exclusive: sessionLockToken ? false : exclusive, sessionLockToken: this.#accepted ? undefined : sessionLockToken };
    const credit = Math.max(this.#target - this.#buffer.length, 0);
    this.#credit = credit;
    this.#opening = true;
    try {
      const answer = await this.#wire.request("feed", { feed: this.#feed, entity: this.entity, mode, credit, bodies, accept, ...which },
        { bound: true, again: "safe", timeout: next ? (wait ?? 60) + 60 : undefined });
      if (this.#over) return;
      this.#opening = false;
      this.#live = this.#accepted = true;
      this.#attempts = 0;
      if (this.#ofSession) {
        this.#session = answer.session;
        this.#sessionLockToken = answer.sessionLockToken;
        this.#hold(answer.lockedUntil, autoRenew);
      }
      this.#becomeReady();
      this.#topUp();
    } catch (e) {
      const error = asError(e);
      this.#opening = false;
      if (this.#closing || error.code === "connection_lost") return; // what finishes or opens it follows
      if (!this.#accepted || !(error.retriable || error.code === "session_locked")) return this.#finish(error);
      this.#again();
    }
  }

  /** Tries again to get back what it had. */
  #again() {
    this.#timer = setTimeout(() => this.#open(), Math.min(250 * 2 ** this.#attempts++, 5000));
  }

  /** @param {string} lockedUntil @param {number | false} [autoRenew] */
  #hold(lockedUntil, autoRenew = this.#options.autoRenew) {
    this.#lockedUntil = new Date(lockedUntil);
    clearTimeout(this.#timer);
    if (!autoRenew) return;
    this.#timer = setTimeout(() => this.renew().catch(() => {}), this.#wire.renewal(this.#lockedUntil) - Date.now());
  }

  #lost() {
    this.#live = false;
    this.#credit = 0;
    clearTimeout(this.#timer);
    if (this.#closing || !this.#ofSession || !this.#accepted) return;
    this.#sessionLost(new CrosstownError("session_lock_lost", `The connection was lost, and the gateway released session ${this.#session} of ${this.entity}.`));
  }

  /** What the session held is not here any more. @param {CrosstownError} error */
  #sessionLost(error) {
    if (this.#options.mode === "peekLock") {
      const unread = this.#buffer;
      this.#buffer = [];
      if (this.#sessionLockToken) this.#handBack(unread);
    }
    if (!this.#options.reaccept) this.#finish(error);
  }

  /** Releases what the next holder of the session should get. @param {M[]} unread */
  #handBack(unread) {
    for (const d of unread) {
      if (d instanceof Delivery) this.#locks.settle(undefined, { entity: this.entity }, { lockToken: d.lockToken, outcome: "release" }).catch(() => {});
    }
  }

  /** @param {CrosstownError} error */
  #ended(error) {
    this.#live = false;
    this.#credit = 0;
    clearTimeout(this.#timer);
    if (this.#ofSession && error.code === "session_lock_lost") {
      this.#sessionLost(error);
      if (!this.#over) this.#again();
    } else if (error.code === "closed") {
      this.#finish();
    } else {
      this.#finish(error);
    }
  }

  /** @param {any[]} messages */
  #deliver(messages) {
    const { mode, autoRenew } = this.#options;
    this.#credit = Math.max(this.#credit - messages.length, 0);
    for (const frame of messages) {
      /** @type {M} */
      const message = received(frame, mode, this.#locks, this.#origin);
      if (message instanceof Delivery && autoRenew && !this.#ofSession) this.#locks.keep(message, this.entity, autoRenew);
      const reader = this.#waiting.shift();
      if (reader) reader.resolve({ value: message, done: false });
      else this.#buffer.push(message);
    }
    this.#arrived();
    this.#topUp();
  }

  #topUp() {
    const target = this.#target, have = this.#credit + this.#buffer.length;
    if (!this.#live || this.#closing || have > target / 2 || have >= target) return;
    this.#credit += target - have;
    this.#wire.request("credit", { feed: this.#feed, credit: target - have }, { bound: true }).catch(() => {});
  }

  /** @param {CrosstownError} [error] */
  #finish(error) {
    if (this.#over) return;
    this.#over = true;
    this.#live = false;
    clearTimeout(this.#timer);
    this.#wire.detach(this.#feed);
    this.#neverReady(error ?? new CrosstownError("closed", "The feed was closed."));
    this.#arrived();
    const [first, ...others] = this.#waiting;
    this.#waiting = [];
    if (first && error) first.reject(error);
    else first?.resolve({ value: undefined, done: true });
    if (!first) this.#error = error;
    for (const reader of others) reader.resolve({ value: undefined, done: true });
  }
}

/** @param {any} frame @param {string | undefined} mode @param {Locks} locks @param {Origin} origin @returns {any} */
const received = (frame, mode, locks, origin) => (mode === "receiveAndDelete" ? new Message(frame) : new Delivery(frame, locks, origin));

// ------------------------------------------------------------ the client

/**
 * @typedef {object} PeekOptions
 * @property {number} [from] a sequence number, 1 by default
 * @property {number} [max] 1 to 250, 32 by default
 * @property {"Active" | "Deferred" | "Scheduled"} [inState] only messages in this state; not for a session
 * @property {"decoded" | "binary"} [bodies]
 */

/**
 * @typedef {{wait?: number} & Pick<FeedOptions, "mode" | "bodies" | "accept" | "autoRenew">} TakeOptions
 */

/**
 * @typedef {object} DeferredOptions
 * @property {"peekLock" | "receiveAndDelete"} [mode]
 * @property {"decoded" | "binary"} [bodies]
 */

/**
 * @typedef {object} Entity
 * @property {"queue" | "topic" | "subscription"} kind
 * @property {string} name
 * @property {string} created
 * @property {string} updated
 * @property {string | null} accessed
 * @property {number} partitions
 * @property {Record<string, any>} settings by the names of the management API; durations such as PT1M
 * @property {Record<"active" | "locked" | "deferred" | "scheduled" | "deadLetter" | "transfer" | "transferDeadLetter" | "damaged" | "bytes" | "subscriptions" | "enqueued" | "consumers", number>} counts
 * @property {string} availability
 * @property {string} [rateLimit] the most that receivers get, such as 5/s
 * @property {"closed" | "open" | "half-open"} [circuitBreaker] its state at this gateway
 * @property {string} [keepDeadLetters] how long dead letters are kept, such as P30D
 */

/**
 * @typedef {object} Filter
 * @property {"sql" | "correlation" | "true" | "false"} kind
 * @property {string} [sql]
 * @property {Record<string, any>} [parameters] of an SQL filter, see Value
 * @property {Record<string, any>} [correlation] broker properties, and `properties`
 */

/**
 * @typedef {object} Rule
 * @property {string} name
 * @property {Filter} filter
 * @property {string} [action] in SQL
 * @property {Record<string, any>} [actionParameters] see Value
 */

/**
 * What a rule makes of a message.
 *
 * @typedef {object} Judgement
 * @property {string} subscription
 * @property {string} rule
 * @property {boolean} matched
 * @property {string[]} why
 * @property {string} [error]
 * @property {Message} [message] the copy after the rule's action
 */

/**
 * What rules make of a message.
 *
 * @typedef {object} Judgements
 * @property {Judgement[]} judgements those that match first; at most 1,000, and fewer if they come to more than 1 MiB
 * @property {number} total how many rules were asked
 * @property {number} matched how many of them match
 */

/**
 * @typedef {object} Connection
 * @property {string} id
 * @property {string} protocol
 * @property {string} peer
 * @property {string} namespace "" as long as nobody has signed in
 * @property {string} since
 * @property {string[]} policies
 * @property {string} product
 * @property {{entity: string, direction: string, mode?: string, session?: string}[]} links
 */

/** A client: one connection to a gateway, for any number of entities. */
export class Crosstown {
  #wire;
  #locks;
  /** @type {Map<string, Set<(detail: any) => void>>} */
  #listeners = new Map();

  /**
   * Connects at once; what is asked for meanwhile waits.
   * @param {string | URL | Options} [address] `https://host:port` (or http, ws, wss), or a connection string. By
   *   default the connection string's endpoint, else where this module, or the page, was loaded from
   * @param {Options} [options]
   */
  constructor(address, options = {}) {
    if (typeof address === "object" && !(address instanceof URL)) [address, options] = [undefined, address];
    const given = String(address ?? "");
    const isConnection = /(^|;)\s*endpoint\s*=/i.test(given);
    const text = isConnection ? given : options.connectionString;
    const connection = text === undefined ? undefined : parseConnectionString(text);
    if (!connection && !options.token && !options.getToken) {
      throw invalid("Nothing to sign in with: give a connectionString, a token, or getToken.");
    }
    const url = addressOf(isConnection ? "" : given, connection);
    const { token = connection?.signature, getToken } = options;
    const sign = token || !connection ? undefined : () => sas(connection);
    this.#wire = new Wire(url, { ...options, token, getToken: getToken ?? sign }, (type, detail) => this.#emit(type, detail));
    this.#locks = new Locks(this.#wire);
  }

  /** Resolves when signed in for the first time, rejects if that fails for good. @returns {Promise<void>} */
  get ready() { return this.#wire.ready; }

  /** `waiting` is between two attempts to connect. */
  get state() { return this.#wire.state; }

  /**
   * @template {keyof Events} T
   * @param {T} type
   * @param {(detail: Events[T]) => void} listener
   * @returns {() => void} ends it
   */
  on(type, listener) {
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** @param {string} type @param {any} detail */
  #emit(type, detail) {
    for (const listener of this.#listeners.get(type) ?? []) queueMicrotask(() => listener(detail));
  }

  /**
   * Adds the rights of another token, or those of a new one for what had them before.
   * @param {string} token
   */
  signIn(token) { return this.#wire.signIn(token); }

  /** Closes feeds, waits until what was asked for is answered, for five seconds at most, and disconnects. */
  async close() {
    const error = new CrosstownError("closed", "The client is closed.");
    this.#locks.stop();
    this.#locks.flush();
    /** @type {any} */
    let timer;
    if (this.state === "open") {
      const patience = new Promise((/** @type {(v: void) => void} */ resolve) => { timer = after(5, resolve); });
      await Promise.race([patience, this.#wire.finish()]);
      clearTimeout(timer);
    }
    this.#wire.fail(1000, error);
  }

  /**
   * A request of the protocol, for what has no method here. One that the
   * connection broke under is rejected with connection_lost.
   * @param {string} op
   * @param {Record<string, any>} [members]
   * @returns {Promise<any>} the answer's frame
   */
  request(op, members = {}) { return this.#wire.request(op, members); }

  // -- sending

  /**
   * Sends one message, or several, all or nothing.
   *
   * If the connection breaks before the answer comes, nobody knows whether they
   * were stored: this rejects with `unknownOutcome`. With `retry` it sends them
   * again instead: give it only for an entity with duplicate detection. Each
   * message must have a MessageId then.
   *
   * @param {string} entity
   * @param {OutgoingMessage | string | Uint8Array | (OutgoingMessage | string | Uint8Array)[]} messages
   * @param {{retry?: boolean}} [options]
   * @returns {Promise<number[]>} sequence numbers in step; 0 is a duplicate that was dropped
   */
  async send(entity, messages, { retry = false } = {}) {
    const frames = (Array.isArray(messages) ? messages : [messages]).map(encodeMessage);
    if (retry && frames.some((m) => m.broker?.MessageId === undefined)) throw invalid("To be sent again, each message needs a MessageId.");
    const { sequenceNumbers } = await this.#wire.request("send", { entity, messages: frames }, { again: retry ? "repeat" : "unsafe" });
    return sequenceNumbers;
  }

  /**
   * As send, for later.
   * @param {string} entity
   * @param {OutgoingMessage | string | Uint8Array | (OutgoingMessage | string | Uint8Array)[]} messages
   * @param {Date | string} when
   * @param {{retry?: boolean}} [options]
   * @returns {Promise<number[]>} sequence numbers, by which they can be cancelled
   */
  async schedule(entity, messages, when, options) {
    const later = (Array.isArray(messages) ? messages : [messages]).map((m) => {
      const message = typeof m === "string" ? { text: m } : ArrayBuffer.isView(m) ? { binary: m } : m;
      return { ...message, broker: { .../** @type {OutgoingMessage} */ (message).broker, ScheduledEnqueueTimeUtc: instant(when) } };
    });
    return this.send(entity, later, options);
  }

  /** Takes scheduled messages back, all or nothing. @param {string} entity @param {number[]} sequenceNumbers @returns {Promise<void>} */
  async cancel(entity, sequenceNumbers) {
    await this.#wire.request("cancel", { entity, sequenceNumbers }, { again: "safe" });
  }

  // -- receiving

  /**
   * Messages of a queue, `TOPIC/Subscriptions/NAME`, or `…/$DeadLetterQueue`.
   * @overload
   * @param {string} entity
   * @param {FeedOptions & {mode: "receiveAndDelete"}} options
   * @returns {Feed<Message>}
   */
  /**
   * @overload
   * @param {string} entity
   * @param {FeedOptions} [options]
   * @returns {Feed<Delivery>}
   */
  /**
   * @param {string} entity
   * @param {FeedOptions} [options]
   * @returns {Feed<any>}
   */
  receive(entity, options = {}) {
    return new Feed(this.#wire, this.#locks, entity, options);
  }

  /**
   * Up to `max` messages, without a feed that stays: as soon as there is one, or
   * none after `wait` seconds.
   * @overload
   * @param {string} entity
   * @param {number} max
   * @param {TakeOptions & {mode: "receiveAndDelete"}} options
   * @returns {Promise<Message[]>}
   */
  /**
   * @overload
   * @param {string} entity
   * @param {number} max
   * @param {TakeOptions} [options]
   * @returns {Promise<Delivery[]>}
   */
  /**
   * @param {string} entity
   * @param {number} max
   * @param {TakeOptions} [options]
   * @returns {Promise<any[]>}
   */
  async take(entity, max, { wait, ...options } = {}) {
    const feed = this.receive(entity, { ...options, prefetch: 0 });
    try {
      return await feed.take(max, wait);
    } finally {
      await feed.close();
    }
  }

  /** Looks without receiving. @param {string} entity @param {PeekOptions} [options] @returns {Promise<Message[]>} */
  async peek(entity, options = {}) {
    const { messages } = await this.#ask("peek", { entity, ...options });
    return messages.map((/** @type {any} */ m) => new Message(m));
  }

  /**
   * Messages that were set aside. Their locks are not renewed by themselves.
   * @param {string} entity
   * @param {number[]} sequenceNumbers
   * @param {DeferredOptions} [options]
   * @returns {Promise<any[]>} Deliveries, or Messages if the mode is receiveAndDelete
   */
  async receiveDeferred(entity, sequenceNumbers, options = {}) {
    const again = options.mode === "receiveAndDelete" ? "unsafe" : "safe";
    const { messages } = await this.#wire.request("receiveDeferred", { entity, sequenceNumbers, ...options }, { again });
    return messages.map((/** @type {any} */ m) => received(m, options.mode, this.#locks, { entity }));
  }

  /**
   * Settles by lock token what may have been received elsewhere.
   * @param {string} entity
   * @param {Settlement[]} settlements
   * @returns {Promise<(null | CrosstownError)[]>} in step
   */
  settle(entity, settlements) {
    const origin = { entity };
    return Promise.all(settlements.map((s) => this.#locks.settle(undefined, origin, s).then(() => null, asError)));
  }

  /** Renews locks. @param {string} entity @param {string[]} lockTokens @returns {Promise<(Date | CrosstownError)[]>} until when, in step */
  renew(entity, lockTokens) { return this.#locks.renew(entity, lockTokens); }

  /**
   * Removes messages, at most `max`, 4,500 if that is not given.
   * @param {string} entity
   * @param {{before?: Date | string, max?: number}} [which] before: those that came earlier, else all
   * @returns {Promise<number>} how many
   */
  async purge(entity, { before = endOfTime, max } = {}) {
    return (await this.#wire.request("purge", { entity, before: instant(before), max }, { again: "safe" })).count;
  }

  /**
   * The ids of sessions.
   * @param {string} entity
   * @param {{since?: Date | string, skip?: number, top?: number}} [which] since: those whose state was set later, else
   *   those that have messages or state
   * @returns {Promise<string[]>}
   */
  async sessions(entity, { since, skip, top } = {}) {
    return (await this.#ask("sessions", { entity, since: since && instant(since), skip, top })).sessions;
  }

  // -- managing

  /**
   * @param {"queue" | "topic" | "subscription"} kind
   * @param {{topic?: string, skip?: number, top?: number}} [which]
   * @returns {Promise<Entity[]>}
   */
  async entities(kind, which = {}) { return (await this.#ask("entities", { kind, ...which })).entities; }

  /** @param {string} entity @returns {Promise<Entity>} */
  async entity(entity) { return (await this.#ask("entity", { entity })).entity; }

  /**
   * @param {"queue" | "topic" | "subscription"} kind
   * @param {string} entity a subscription's is `TOPIC/Subscriptions/NAME`
   * @param {Record<string, any>} [settings] those that are not to be the defaults
   * @param {{rule?: Rule}} [more] of a subscription, instead of the rule that matches all
   * @returns {Promise<Entity>}
   */
  async create(kind, entity, settings, { rule } = {}) {
    return (await this.#change("create", { kind, entity, settings, rule: rule && encodeRule(rule) })).entity;
  }

  /** @param {string} entity @param {Record<string, any>} settings those to change @returns {Promise<Entity>} */
  async update(entity, settings) { return (await this.#change("update", { entity, settings })).entity; }

  /** @param {string} entity @returns {Promise<void>} */
  async delete(entity) { await this.#change("delete", { entity }); }

  /** @param {string} entity a subscription @returns {Promise<Rule[]>} */
  async rules(entity) { return (await this.#ask("rules", { entity })).rules.map(decodeRule); }

  /** @param {string} entity @param {Rule} rule @returns {Promise<Rule>} */
  async createRule(entity, rule) { return decodeRule((await this.#change("createRule", { entity, rule: encodeRule(rule) })).rule); }

  /** @param {string} entity @param {Rule} rule @returns {Promise<Rule>} */
  async updateRule(entity, rule) { return decodeRule((await this.#change("updateRule", { entity, rule: encodeRule(rule) })).rule); }

  /** @param {string} entity @param {string} name @returns {Promise<void>} */
  async deleteRule(entity, name) { await this.#change("deleteRule", { entity, name }); }

  /**
   * What each rule would make of a message; nothing is sent.
   * @param {string} entity a topic, or a subscription
   * @param {OutgoingMessage} message
   * @param {Rule[]} [rules] instead of those that the topic's subscriptions, or the one, have
   * @returns {Promise<Judgements>}
   */
  async testRules(entity, message, rules) {
    const { judgements, total, matched } = await this.#ask("testRules", { entity, message: encodeMessage(message), rules: rules?.map(encodeRule) });
    return { judgements: judgements.map((/** @type {any} */ j) => ({ ...j, message: j.message && new Message(j.message) })), total, matched };
  }

  /**
   * Asks the gateway over HTTP, as the global fetch does, with the token that this client signed in with; with the first,
   * if it has several. Answers of every status are returned.
   * @param {string} path such as `/$crosstown/plugins`
   * @param {RequestInit} [init]
   * @returns {Promise<Response>}
   */
  fetch(path, init) { return this.#wire.fetch(path, init); }

  /** The connections of the gateway that this one leads to. @returns {Promise<Connection[]>} */
  async connections() { return (await this.#ask("connections", {})).connections; }
  /** Closes one of these by its id: its client is told, and connects again. @param {string} connection */
  async closeConnection(connection) { await this.#ask("closeConnection", { connection }); }

  /** Asks what changes nothing. @param {string} op @param {Record<string, any>} members */
  #ask(op, members) { return this.#wire.request(op, members, { again: "repeat" }); }

  /** @param {string} op @param {Record<string, any>} members */
  #change(op, members) { return this.#wire.request(op, members, { again: "safe" }); }
}

/** @param {any} rule @param {(v: any) => any} f what becomes of values @returns {any} */
function mapRule({ name, filter, action, actionParameters }, f) {
  const { kind, sql, parameters, correlation } = filter;
  return {
    name,
    filter: {
      kind,
      sql,
      parameters: parameters && mapValues(parameters, f),
      correlation: correlation && { ...correlation, properties: correlation.properties && mapValues(correlation.properties, f) },
    },
    action,
    actionParameters: actionParameters && mapValues(actionParameters, f),
  };
}

/** @param {Rule} rule */
const encodeRule = (rule) => mapRule(rule, encodeValue);

/** @param {any} rule @returns {Rule} */
const decodeRule = (rule) => mapRule(rule, decodeValue);

// --------------------------------------------------- addresses and tokens

/**
 * @typedef {{host: string, plain: boolean, entity: string, name?: string, key?: string, signature?: string}} ConnectionString
 */

/**
 * @param {string} text
 * @returns {ConnectionString}
 */
function parseConnectionString(text) {
  /** @type {Record<string, string>} */
  const parts = {};
  for (const pair of text.split(";").filter((p) => p.trim() !== "")) {
    const at = pair.indexOf("=");
    if (at < 1) throw invalid("The connection string has a part that is not of the form Key=value.");
    parts[pair.slice(0, at).trim().toLowerCase()] = pair.slice(at + 1).trim();
  }
  const { endpoint, sharedaccesskeyname: name, sharedaccesskey: key, sharedaccesssignature: signature } = parts;
  const host = /^\w+:\/\/([^/]+)/.exec(endpoint ?? "")?.[1];
  if (!host) throw invalid("The connection string's Endpoint is not of the form sb://host:port.");
  if (!signature && !(name && key)) throw invalid("The connection string has no SharedAccessKeyName with a SharedAccessKey, and no SharedAccessSignature.");
  const plain = parts.usedevelopmentemulator?.toLowerCase() === "true";
  return { host, plain, entity: (parts.entitypath ?? "").replace(/^\/+|\/+$/g, ""), name, key, signature };
}

/** @param {string} given @param {ConnectionString} [connection] @returns {string} of the WebSocket */
function addressOf(given, connection) {
  const here = globalThis.location?.origin;
  let base = given;
  if (!base && connection) base = `${connection.plain ? "ws" : "wss"}://${connection.host}`;
  if (!base && /^https?:.*\/client\/crosstown\.js/.test(import.meta.url ?? "")) base = new URL(import.meta.url).origin;
  if (!base && here?.startsWith("http")) base = here;
  if (!base) throw invalid("No address: give https://host:port, or a connection string.");
  let url;
  try {
    url = new URL(base.replace(/^http/, "ws").replace(/^sb:/, "wss:"));
  } catch {
    throw invalid(`${base} is not an address: give https://host:port, or a connection string.`);
  }
  if (url.pathname === "/") url.pathname = path;
  return String(url);
}

/** How long a token that is signed here is good for; it is renewed before. */
const tokenLife = 3600;

/** @param {ConnectionString} connection @returns {Promise<string>} a shared access signature */
async function sas({ host, entity, name = "", key = "" }) {
  const { subtle } = await webCrypto();
  const sr = encodeURIComponent(`sb://${host}/${entity}`);
  const se = Math.floor(Date.now() / 1000) + tokenLife;
  const utf8 = new TextEncoder();
  const signer = await subtle.importKey("raw", utf8.encode(key), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const mac = await subtle.sign("HMAC", signer, utf8.encode(`${sr}\n${se}`));
  return `SharedAccessSignature sr=${sr}&sig=${encodeURIComponent(base64(new Uint8Array(mac)))}&se=${se}&skn=${encodeURIComponent(name)}`;
}

/** @returns {Promise<Crypto>} */
async function webCrypto() {
  if (globalThis.crypto?.subtle) return globalThis.crypto;
  const node = "node:crypto"; // Node 18 has it only there
  const { webcrypto } = await import(node).catch(() => ({}));
  if (webcrypto) return webcrypto;
  throw invalid("A page signs with a key only in a secure context: load it through https or from localhost, or give a token.");
}
