/**
 * The form that a value has in frames.
 * @param {any} v
 * @returns {any}
 */
export function encodeValue(v: any): any;
/**
 * The value that a frame holds: the inverse of encodeValue.
 * @param {any} v
 * @returns {any}
 */
export function decodeValue(v: any): any;
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
    constructor(code: string, text: string, about?: {
        retriable?: boolean;
        unknownOutcome?: boolean;
        tracking?: string;
    });
    /** A word such as `lock_lost`: the same as in every protocol. */
    code: string;
    /** Whether the same request may be made again, and may succeed then. */
    retriable: boolean;
    /**
     * Whether the request may have been carried out all the same: it was sent,
     * and no answer came.
     */
    unknownOutcome: boolean;
    /** By which the gateway's log tells of it; "" for errors of the client's own. */
    tracking: string;
    /** What the gateway or this client says, for people. */
    get text(): string;
}
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
    /** @param {number} n */
    static int(n: number): Value;
    /** @param {number} n */
    static short(n: number): Value;
    /** @param {number} n */
    static byte(n: number): Value;
    /** @param {number} n */
    static uint(n: number): Value;
    /** @param {number} n */
    static ushort(n: number): Value;
    /** @param {number} n */
    static ubyte(n: number): Value;
    /** @param {number | bigint} n */
    static ulong(n: number | bigint): Value;
    /** @param {number} n */
    static float(n: number): Value;
    /** A double that has no fraction: a plain 3 is a long. @param {number} n */
    static double(n: number): Value;
    /** @param {string} digits the bytes of IEEE 754, as 8 hexadecimal digits */
    static decimal32(digits: string): Value;
    /** @param {string} digits the bytes of IEEE 754, as 16 hexadecimal digits */
    static decimal64(digits: string): Value;
    /** @param {string} digits the bytes of IEEE 754, as 32 hexadecimal digits */
    static decimal128(digits: string): Value;
    /** @param {string} text such as 00112233-4455-6677-8899-aabbccddeeff */
    static uuid(text: string): Value;
    /** @param {string} text */
    static symbol(text: string): Value;
    /** @param {string} text one character */
    static char(text: string): Value;
    /**
     * In bodies only. Elements of types that need a Value elsewhere are given bare: `Value.array("int", [1, 2])`.
     * @param {string} type of each element
     * @param {any[]} elements
     * @param {any} [descriptor] of each element
     */
    static array(type: string, elements: any[], descriptor?: any): Value;
    /** @param {any} descriptor @param {any} value */
    static described(descriptor: any, value: any): Value;
    /**
     * @param {ValueType} type
     * @param {any} value
     */
    constructor(type: ValueType, value: any);
    type: ValueType;
    value: any;
    valueOf(): any;
    toString(): string;
    /** The form that it has in frames. */
    toJSON(): any;
}
/** A message as it was peeked, or received and deleted. */
export class Message {
    /** Messages come from a Crosstown. @param {any} frame */
    constructor(frame: any);
    /** @type {BrokerProperties} */
    broker: BrokerProperties;
    /** User properties, see Value. @type {Record<string, any>} */
    properties: Record<string, any>;
    /** The body, if its content type says that it is text. @type {string | undefined} */
    text: string | undefined;
    /** The body, if its content type says that it is JSON. @type {any} */
    json: any;
    /** The body's bytes, if nothing better is known. @type {Uint8Array | undefined} */
    binary: Uint8Array | undefined;
    /** The body of an AMQP sender that sent a value. @type {any} */
    value: any;
    /** The body of an AMQP sender that sent sequences. @type {any[][] | undefined} */
    sequence: any[][] | undefined;
    /** The body in the form that it has; undefined if it has none. @returns {any} */
    get body(): any;
    /** @returns {number} */
    get sequenceNumber(): number;
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
    /** Deliveries come from a Crosstown. @param {any} frame @param {any} locks @param {any} origin */
    constructor(frame: any, locks: any, origin: any);
    get lockToken(): string;
    /** When the lock ends, by the gateway's clock; renewals move it. */
    get lockedUntil(): Date;
    /** Done: the message is removed. @returns {Promise<void>} */
    complete(): Promise<void>;
    /** Back to the queue, for whoever comes next. @param {Record<string, any>} [properties] to overwrite @returns {Promise<void>} */
    abandon(properties?: Record<string, any>): Promise<void>;
    /** Set aside, for receiveDeferred with its sequence number. @param {Record<string, any>} [properties] to overwrite @returns {Promise<void>} */
    defer(properties?: Record<string, any>): Promise<void>;
    /**
     * To the dead-letter queue.
     * @param {{reason?: string, description?: string, properties?: Record<string, any>}} [why]
     * @returns {Promise<void>}
     */
    deadLetter(why?: {
        reason?: string;
        description?: string;
        properties?: Record<string, any>;
    }): Promise<void>;
    /** As abandon, without counting the delivery. @returns {Promise<void>} */
    release(): Promise<void>;
    /** Extends the lock by the entity's lock duration. @returns {Promise<Date>} until when */
    renew(): Promise<Date>;
    #private;
}
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
export class Feed<M extends Message = Delivery> {
    /** Feeds come from Crosstown.receive. @param {any} wire @param {any} locks @param {string} entity @param {FeedOptions} options */
    constructor(wire: any, locks: any, entity: string, options: FeedOptions);
    /** Resolves when the gateway has opened the feed, rejects if it has refused. @type {Promise<void>} */
    ready: Promise<void>;
    get entity(): string;
    /** The id of the session that is held, or was. */
    get session(): string | undefined;
    /** When the session's lock ends, by the gateway's clock; renewals move it. */
    get lockedUntil(): Date | undefined;
    /**
     * Where the session can be taken over, what another feed shows for that; only
     * who may have the session should know it. Undefined elsewhere.
     */
    get sessionLockToken(): string | undefined;
    /** The next message, as soon as there is one. @returns {Promise<IteratorResult<M, undefined>>} */
    next(): Promise<IteratorResult<M, undefined>>;
    /** What `break` in a loop does: closes. @returns {Promise<IteratorResult<M, undefined>>} */
    return(): Promise<IteratorResult<M, undefined>>;
    /**
     * Up to `max` messages, in a feed with prefetch 0: as soon as there is one, or
     * none after `wait` seconds. One call at a time.
     * @param {number} max
     * @param {number} [wait] 60 by default
     * @returns {Promise<M[]>}
     */
    take(max: number, wait?: number): Promise<M[]>;
    /**
     * Ends the feed. Deliveries that were not read are released; a session is given
     * back, with what was not settled.
     * @returns {Promise<M[]>} what was received and deleted, and not read
     */
    close(): Promise<M[]>;
    /** Extends the session's lock, which is done in time by itself unless autoRenew is off. @returns {Promise<Date>} until when */
    renew(): Promise<Date>;
    /** The session's state, null if there is none. @returns {Promise<Uint8Array | null>} */
    state(): Promise<Uint8Array | null>;
    /** Sets the session's state; null clears it. @param {Uint8Array | string | null} state */
    setState(state: Uint8Array | string | null): Promise<void>;
    /**
     * Settles by lock token, in this session, what the feed that it was taken over from had received.
     * @param {Settlement[]} settlements
     * @returns {Promise<(null | CrosstownError)[]>} in step
     */
    settle(settlements: Settlement[]): Promise<(null | CrosstownError)[]>;
    /** As Crosstown.purge, in this session alone. @param {{before?: Date | string, max?: number}} [which] @returns {Promise<number>} how many */
    purge({ before, max }?: {
        before?: Date | string;
        max?: number;
    }): Promise<number>;
    /** As Crosstown.peek, in this session alone. @param {PeekOptions} [options] @returns {Promise<Message[]>} */
    peek(options?: PeekOptions): Promise<Message[]>;
    /** As Crosstown.receiveDeferred, from this session. @param {number[]} sequenceNumbers @param {DeferredOptions} [options] @returns {Promise<M[]>} */
    receiveDeferred(sequenceNumbers: number[], options?: DeferredOptions): Promise<M[]>;
    /** @returns {Feed<M>} */
    [Symbol.asyncIterator](): Feed<M>;
    #private;
}
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
    /**
     * Connects at once; what is asked for meanwhile waits.
     * @param {string | URL | Options} [address] `https://host:port` (or http, ws, wss), or a connection string. By
     *   default the connection string's endpoint, else where this module, or the page, was loaded from
     * @param {Options} [options]
     */
    constructor(address?: string | URL | Options, options?: Options);
    /** Resolves when signed in for the first time, rejects if that fails for good. @returns {Promise<void>} */
    get ready(): Promise<void>;
    /** `waiting` is between two attempts to connect. */
    get state(): "waiting" | "closed" | "connecting" | "open";
    /**
     * @template {keyof Events} T
     * @param {T} type
     * @param {(detail: Events[T]) => void} listener
     * @returns {() => void} ends it
     */
    on<T extends keyof Events>(type: T, listener: (detail: Events[T]) => void): () => void;
    /**
     * Adds the rights of another token, or those of a new one for what had them before.
     * @param {string} token
     */
    signIn(token: string): Promise<Rights>;
    /** Closes feeds, waits until what was asked for is answered, for five seconds at most, and disconnects. */
    close(): Promise<void>;
    /**
     * A request of the protocol, for what has no method here. One that the
     * connection broke under is rejected with connection_lost.
     * @param {string} op
     * @param {Record<string, any>} [members]
     * @returns {Promise<any>} the answer's frame
     */
    request(op: string, members?: Record<string, any>): Promise<any>;
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
    send(entity: string, messages: OutgoingMessage | string | Uint8Array | (OutgoingMessage | string | Uint8Array)[], { retry }?: {
        retry?: boolean;
    }): Promise<number[]>;
    /**
     * As send, for later.
     * @param {string} entity
     * @param {OutgoingMessage | string | Uint8Array | (OutgoingMessage | string | Uint8Array)[]} messages
     * @param {Date | string} when
     * @param {{retry?: boolean}} [options]
     * @returns {Promise<number[]>} sequence numbers, by which they can be cancelled
     */
    schedule(entity: string, messages: OutgoingMessage | string | Uint8Array | (OutgoingMessage | string | Uint8Array)[], when: Date | string, options?: {
        retry?: boolean;
    }): Promise<number[]>;
    /** Takes scheduled messages back, all or nothing. @param {string} entity @param {number[]} sequenceNumbers @returns {Promise<void>} */
    cancel(entity: string, sequenceNumbers: number[]): Promise<void>;
    /**
     * Messages of a queue, `TOPIC/Subscriptions/NAME`, or `…/$DeadLetterQueue`.
     * @overload
     * @param {string} entity
     * @param {FeedOptions & {mode: "receiveAndDelete"}} options
     * @returns {Feed<Message>}
     */
    receive(entity: string, options: FeedOptions & {
        mode: "receiveAndDelete";
    }): Feed<Message>;
    /**
     * @overload
     * @param {string} entity
     * @param {FeedOptions} [options]
     * @returns {Feed<Delivery>}
     */
    receive(entity: string, options?: FeedOptions | undefined): Feed<Delivery>;
    /**
     * Up to `max` messages, without a feed that stays: as soon as there is one, or
     * none after `wait` seconds.
     * @overload
     * @param {string} entity
     * @param {number} max
     * @param {TakeOptions & {mode: "receiveAndDelete"}} options
     * @returns {Promise<Message[]>}
     */
    take(entity: string, max: number, options: TakeOptions & {
        mode: "receiveAndDelete";
    }): Promise<Message[]>;
    /**
     * @overload
     * @param {string} entity
     * @param {number} max
     * @param {TakeOptions} [options]
     * @returns {Promise<Delivery[]>}
     */
    take(entity: string, max: number, options?: TakeOptions | undefined): Promise<Delivery[]>;
    /** Looks without receiving. @param {string} entity @param {PeekOptions} [options] @returns {Promise<Message[]>} */
    peek(entity: string, options?: PeekOptions): Promise<Message[]>;
    /**
     * Messages that were set aside. Their locks are not renewed by themselves.
     * @param {string} entity
     * @param {number[]} sequenceNumbers
     * @param {DeferredOptions} [options]
     * @returns {Promise<any[]>} Deliveries, or Messages if the mode is receiveAndDelete
     */
    receiveDeferred(entity: string, sequenceNumbers: number[], options?: DeferredOptions): Promise<any[]>;
    /**
     * Settles by lock token what may have been received elsewhere.
     * @param {string} entity
     * @param {Settlement[]} settlements
     * @returns {Promise<(null | CrosstownError)[]>} in step
     */
    settle(entity: string, settlements: Settlement[]): Promise<(null | CrosstownError)[]>;
    /** Renews locks. @param {string} entity @param {string[]} lockTokens @returns {Promise<(Date | CrosstownError)[]>} until when, in step */
    renew(entity: string, lockTokens: string[]): Promise<(Date | CrosstownError)[]>;
    /**
     * Removes messages, at most `max`, 4,500 if that is not given.
     * @param {string} entity
     * @param {{before?: Date | string, max?: number}} [which] before: those that came earlier, else all
     * @returns {Promise<number>} how many
     */
    purge(entity: string, { before, max }?: {
        before?: Date | string;
        max?: number;
    }): Promise<number>;
    /**
     * The ids of sessions.
     * @param {string} entity
     * @param {{since?: Date | string, skip?: number, top?: number}} [which] since: those whose state was set later, else
     *   those that have messages or state
     * @returns {Promise<string[]>}
     */
    sessions(entity: string, { since, skip, top }?: {
        since?: Date | string;
        skip?: number;
        top?: number;
    }): Promise<string[]>;
    /**
     * @param {"queue" | "topic" | "subscription"} kind
     * @param {{topic?: string, skip?: number, top?: number}} [which]
     * @returns {Promise<Entity[]>}
     */
    entities(kind: "queue" | "topic" | "subscription", which?: {
        topic?: string;
        skip?: number;
        top?: number;
    }): Promise<Entity[]>;
    /** @param {string} entity @returns {Promise<Entity>} */
    entity(entity: string): Promise<Entity>;
    /**
     * @param {"queue" | "topic" | "subscription"} kind
     * @param {string} entity a subscription's is `TOPIC/Subscriptions/NAME`
     * @param {Record<string, any>} [settings] those that are not to be the defaults
     * @param {{rule?: Rule}} [more] of a subscription, instead of the rule that matches all
     * @returns {Promise<Entity>}
     */
    create(kind: "queue" | "topic" | "subscription", entity: string, settings?: Record<string, any>, { rule }?: {
        rule?: Rule;
    }): Promise<Entity>;
    /** @param {string} entity @param {Record<string, any>} settings those to change @returns {Promise<Entity>} */
    update(entity: string, settings: Record<string, any>): Promise<Entity>;
    /** @param {string} entity @returns {Promise<void>} */
    delete(entity: string): Promise<void>;
    /** @param {string} entity a subscription @returns {Promise<Rule[]>} */
    rules(entity: string): Promise<Rule[]>;
    /** @param {string} entity @param {Rule} rule @returns {Promise<Rule>} */
    createRule(entity: string, rule: Rule): Promise<Rule>;
    /** @param {string} entity @param {Rule} rule @returns {Promise<Rule>} */
    updateRule(entity: string, rule: Rule): Promise<Rule>;
    /** @param {string} entity @param {string} name @returns {Promise<void>} */
    deleteRule(entity: string, name: string): Promise<void>;
    /**
     * What each rule would make of a message; nothing is sent.
     * @param {string} entity a topic, or a subscription
     * @param {OutgoingMessage} message
     * @param {Rule[]} [rules] instead of those that the topic's subscriptions, or the one, have
     * @returns {Promise<Judgements>}
     */
    testRules(entity: string, message: OutgoingMessage, rules?: Rule[]): Promise<Judgements>;
    /**
     * Asks the gateway over HTTP, as the global fetch does, with the token that this client signed in with; with the first,
     * if it has several. Answers of every status are returned.
     * @param {string} path such as `/$crosstown/plugins`
     * @param {RequestInit} [init]
     * @returns {Promise<Response>}
     */
    fetch(path: string, init?: RequestInit): Promise<Response>;
    /** The connections of the gateway that this one leads to. @returns {Promise<Connection[]>} */
    connections(): Promise<Connection[]>;
    /** Closes one of these by its id: its client is told, and connects again. @param {string} connection */
    closeConnection(connection: string): Promise<void>;
    #private;
}
export type ConnectionString = {
    host: string;
    plain: boolean;
    entity: string;
    name?: string;
    key?: string;
    signature?: string;
};
export type ValueType = "int" | "short" | "byte" | "uint" | "ushort" | "ubyte" | "ulong" | "float" | "double" | "decimal32" | "decimal64" | "decimal128" | "uuid" | "symbol" | "char" | "array" | "described" | "timestamp";
/**
 * Broker properties by their Service Bus names. Instants are RFC 3339 texts (a
 * Date may be given), `TimeToLive` is in seconds. A sender sets the first twelve.
 */
export type BrokerProperties = {
    /**
     * a text; one that an AMQP sender gave another type is a Value
     */
    MessageId?: any;
    /**
     * likewise
     */
    CorrelationId?: any;
    SessionId?: string | undefined;
    ReplyToSessionId?: string | undefined;
    Label?: string | undefined;
    To?: string | undefined;
    ReplyTo?: string | undefined;
    ContentType?: string | undefined;
    PartitionKey?: string | undefined;
    ViaPartitionKey?: string | undefined;
    TimeToLive?: number | undefined;
    ScheduledEnqueueTimeUtc?: string | Date | undefined;
    SequenceNumber?: number | undefined;
    EnqueuedSequenceNumber?: number | undefined;
    EnqueuedTimeUtc?: string | undefined;
    ExpiresAtUtc?: string | undefined;
    /**
     * counts this delivery
     */
    DeliveryCount?: number | undefined;
    LockToken?: string | undefined;
    LockedUntilUtc?: string | undefined;
    State?: "Active" | "Deferred" | "Scheduled" | undefined;
    DeadLetterSource?: string | undefined;
};
/**
 * What is sent: a body in at most one form, and properties. A received message
 * may be sent again as it is; a string alone is a `text` body, a Uint8Array a
 * `binary` one.
 */
export type OutgoingMessage = {
    broker?: BrokerProperties | undefined;
    /**
     * user properties, see Value
     */
    properties?: Record<string, any> | undefined;
    /**
     * UTF-8 text
     */
    text?: string | undefined;
    /**
     * anything that JSON can say
     */
    json?: any;
    /**
     * bytes
     */
    binary?: ArrayBuffer | Uint8Array<ArrayBufferLike> | undefined;
    /**
     * an AMQP value, see Value
     */
    value?: any;
    /**
     * AMQP sequences
     */
    sequence?: any[][] | undefined;
};
export type Outcome = "complete" | "abandon" | "defer" | "deadLetter" | "release";
export type Settlement = {
    lockToken: string;
    outcome: Outcome;
    /**
     * user properties to overwrite, with abandon, defer and deadLetter
     */
    properties?: Record<string, any> | undefined;
    /**
     * with deadLetter
     */
    reason?: string | undefined;
    /**
     * with deadLetter
     */
    description?: string | undefined;
};
/**
 * only: in the feed or nowhere
 */
export type Origin = {
    entity: string;
    feed?: () => number | undefined;
    only?: () => boolean;
};
/**
 * What is told of the connection.
 */
export type Events = {
    /**
     * signed in; `again` after the first time
     */
    open: {
        connection: string;
        again: boolean;
    } & Rights;
    /**
     * the connection ended, with a
     * WebSocket close code; `retryIn` says when the next attempt is made, null that none is
     */
    close: {
        code: number;
        error: CrosstownError;
        retryIn: number | null;
    };
    /**
     * the last right ends in a minute, and this client cannot renew it by itself:
     * give a new token to signIn
     */
    expiring: {
        expires: Date;
    };
};
export type Rights = {
    namespace: string;
    /**
     * whether they are those of who runs the gateway, with all of its namespaces
     */
    operator: boolean;
    policy: string;
    /**
     * the path that the rights are for; "" is the namespace
     */
    scope: string;
    rights: ("Send" | "Listen" | "Manage")[];
    expires: Date | null;
};
export type Reconnect = {
    /**
     * 0.25 by default; doubled at each attempt, and shortened by up to a half at random
     */
    minDelay?: number | undefined;
    /**
     * 30 by default
     */
    maxDelay?: number | undefined;
    /**
     * in a row, without end by default
     */
    attempts?: number | undefined;
    /**
     * whether also the first connection is tried again; false by default, so that `ready`
     * tells a wrong address at once
     */
    initially?: boolean | undefined;
};
/**
 * A shared access signature or a JSON web token, or several for the rights of all.
 */
export type Tokens = string | string[];
export type Options = {
    /**
     * with a key, which signs tokens here and never leaves this object, or with a
     * SharedAccessSignature
     */
    connectionString?: string | undefined;
    token?: Tokens | undefined;
    /**
     * asked at each connection and before the last right ends
     */
    getToken?: (() => Tokens | Promise<Tokens>) | undefined;
    /**
     * another one, which an operator of the gateway enters with the same rights
     */
    namespace?: string | undefined;
    reconnect?: false | Reconnect | undefined;
    /**
     * for a request, 60 by default
     */
    timeout?: number | undefined;
    /**
     * a class to use instead of the global one, such as that of the package `ws` in Node 18 and 20
     */
    WebSocket?: any;
};
/**
 * How a connection treats what was sent and not answered when it broke: "repeat"
 * asks again by itself, which only what changes nothing may; else the request is
 * rejected, and "safe" says that the caller may ask again.
 */
export type Again = "repeat" | "safe" | "unsafe";
export type Pending = {
    op: string;
    /**
     * the frame
     */
    text: string;
    sent: boolean;
    again: Again;
    /**
     * to the connection: not kept for another
     */
    bound: boolean;
    /**
     * by the local clock, in ms
     */
    asked: number;
    timer: any;
    resolve: (answer: any) => void;
    reject: (e: any) => void;
};
/**
 * What is opened anew on every connection.
 */
export type Subscriber = {
    signedIn: () => void;
    /**
     * the connection is; another will follow
     */
    lost: () => void;
    deliver: (messages: any[]) => void;
    /**
     * by the gateway, or because there will be no connection any more
     */
    ended: (e: CrosstownError) => void;
    close: () => Promise<unknown>;
};
export type FeedOptions = {
    /**
     * peekLock by default
     */
    mode?: "peekLock" | "receiveAndDelete" | undefined;
    /**
     * how many messages may wait here; 10 by default, 0 when they are deleted as they are
     * received: each is asked for when somebody waits for it, so that none is lost in a page that goes away
     */
    prefetch?: number | undefined;
    /**
     * a session's id, which may be empty; case does not count
     */
    session?: string | undefined;
    /**
     * the next session that nobody else has
     */
    nextSession?: boolean | undefined;
    /**
     * for a next session, 60 by default
     */
    wait?: number | undefined;
    /**
     * false: another receiver can take the session over, with the feed's sessionLockToken
     */
    exclusive?: boolean | undefined;
    /**
     * the token of the session's lock: takes the session over from the feed that has it
     */
    sessionLockToken?: string | undefined;
    /**
     * whether a session that was lost, with the connection or otherwise, is accepted again;
     * by default the feed ends with session_lock_lost then
     */
    reaccept?: boolean | undefined;
    /**
     * for how long messages that are not settled have their locks renewed, 300 by
     * default; a session's lock is renewed until the feed is closed, unless this is false or 0
     */
    autoRenew?: number | false | undefined;
    /**
     * binary: every body as its bytes
     */
    bodies?: "binary" | "decoded" | undefined;
    /**
     * content types, in the form of HTTP's Accept: where the gateway has serializers, bodies of
     * others are delivered as the one liked best
     */
    accept?: string | undefined;
};
export type PeekOptions = {
    /**
     * a sequence number, 1 by default
     */
    from?: number | undefined;
    /**
     * 1 to 250, 32 by default
     */
    max?: number | undefined;
    /**
     * only messages in this state; not for a session
     */
    inState?: "Active" | "Deferred" | "Scheduled" | undefined;
    bodies?: "binary" | "decoded" | undefined;
};
export type TakeOptions = {
    wait?: number;
} & Pick<FeedOptions, "mode" | "bodies" | "accept" | "autoRenew">;
export type DeferredOptions = {
    mode?: "peekLock" | "receiveAndDelete" | undefined;
    bodies?: "binary" | "decoded" | undefined;
};
export type Entity = {
    kind: "queue" | "topic" | "subscription";
    name: string;
    created: string;
    updated: string;
    accessed: string | null;
    partitions: number;
    /**
     * by the names of the management API; durations such as PT1M
     */
    settings: Record<string, any>;
    counts: Record<"active" | "locked" | "deferred" | "scheduled" | "deadLetter" | "transfer" | "transferDeadLetter" | "damaged" | "bytes" | "subscriptions" | "enqueued" | "consumers", number>;
    availability: string;
    /**
     * the most that receivers get, such as 5/s
     */
    rateLimit?: string | undefined;
    /**
     * its state at this gateway
     */
    circuitBreaker?: "closed" | "open" | "half-open" | undefined;
    /**
     * how long dead letters are kept, such as P30D
     */
    keepDeadLetters?: string | undefined;
};
export type Filter = {
    kind: "sql" | "correlation" | "true" | "false";
    sql?: string | undefined;
    /**
     * of an SQL filter, see Value
     */
    parameters?: Record<string, any> | undefined;
    /**
     * broker properties, and `properties`
     */
    correlation?: Record<string, any> | undefined;
};
export type Rule = {
    name: string;
    filter: Filter;
    /**
     * in SQL
     */
    action?: string | undefined;
    /**
     * see Value
     */
    actionParameters?: Record<string, any> | undefined;
};
/**
 * What a rule makes of a message.
 */
export type Judgement = {
    subscription: string;
    rule: string;
    matched: boolean;
    why: string[];
    error?: string | undefined;
    /**
     * the copy after the rule's action
     */
    message?: Message | undefined;
};
/**
 * What rules make of a message.
 */
export type Judgements = {
    /**
     * those that match first; at most 1,000, and fewer if they come to more than 1 MiB
     */
    judgements: Judgement[];
    /**
     * how many rules were asked
     */
    total: number;
    /**
     * how many of them match
     */
    matched: number;
};
export type Connection = {
    id: string;
    protocol: string;
    peer: string;
    /**
     * "" as long as nobody has signed in
     */
    namespace: string;
    since: string;
    policies: string[];
    product: string;
    links: {
        entity: string;
        direction: string;
        mode?: string;
        session?: string;
    }[];
};
