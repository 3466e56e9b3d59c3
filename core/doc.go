// Package core is Crosstown's vocabulary: messages, what the broker adds to them, the interfaces of
// the broker and of stores, and the closed set of refusals. It knows no protocol and no database,
// and imports only the standard library and core/value.
//
// One word per idea, used alike in Go, Lua, logs and documentation:
//
//   - entity: a queue, topic or subscription, with its sub-queues.
//   - partition: one of an entity's 1..N independent shards; all its state changes in atomic steps.
//   - message: what a producer sets. Broker properties: what only the broker sets. Delivery: both.
//   - lock, token: a receiver's exclusive, timed claim to a message, and the 16 bytes that prove it.
//   - settle, outcome: end a lock with complete, abandon, defer, dead-letter or release.
//   - credit: how many deliveries, and bytes of them, a receiver is ready to take.
//   - session: the messages of one SessionId, received in order by the holder of its lock.
//   - publication, copy: a message sent to a topic, and the form in which one subscription gets it.
//   - forwarder: moves messages from an entity to another one; a hop is one such move.
//   - router: decides about messages before they enter an entity; a verdict is its answer for one.
//   - sweep: end expired locks, remove expired messages, activate scheduled messages that are due.
//   - serializer: reads and writes payloads of some content types. A chain is several serializers in
//     the order in which they are tried; transcoding reads with one and writes with another.
//   - history, event: what is kept about the messages of a partition, and one entry of it; an account
//     is all events of one message.
//   - number: the 48-bit position of a message in its partition; with the partition's index in the
//     upper 16 bits it is the sequence number.
//
// A file is one noun. The nouns refer to each other, so they are one package.
//
// A Message that is passed to the broker belongs to the broker. A Delivery's Message is shared and
// must not be changed.
package core
