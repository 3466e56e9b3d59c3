// Package core is Crosstown's vocabulary: what a message is, what the broker
// knows of it, what may be asked of the broker and of the store behind it, and
// the closed set of words a refusal may use. It knows no protocol and no
// database, and imports only the standard library and core/value.
//
// One word per idea, used alike in Go, Lua, logs and documentation:
//
//   - entity: a queue, topic or subscription, with its sub-queues.
//   - partition: one of an entity's 1..N independent shards; all its state
//     changes in atomic steps.
//   - message: what a producer sets. Broker properties: what only the broker
//     sets. Delivery: both together.
//   - lock, token: a receiver's exclusive, timed claim to a message, and the 16
//     bytes that prove it.
//   - settle, outcome: ending a lock with complete, abandon, defer,
//     dead-letter or release.
//   - credit: how many deliveries a receiver is willing to take.
//   - session: messages of one SessionId, received in order by whoever holds its lock.
//   - publication, copy: a message sent to a topic, and what one subscription gets of it.
//   - forwarder: moves messages from an entity to where they are forwarded; a hop is one such move.
//   - router: decides what becomes of messages at a stage of their way in; a
//     verdict is its answer for one of them.
//   - sweep: expire locks and messages that are due, activate due schedules.
//   - serializer: reads and writes payloads of some content types; a chain is
//     several in the order in which they are tried, to transcode is to read with
//     one and write with another.
//   - history, event: what a partition remembers of what happened to its messages, and
//     one item of that; an account is all that is remembered of one message.
//   - number: the 48-bit position of a message in its partition; with the
//     partition's index in the upper 16 bits it is the sequence number.
//
// A Message handed to the broker belongs to the broker; a Delivery's Message is
// shared and must not be changed.
package core
