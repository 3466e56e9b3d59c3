// Package payload reads and rewrites the payloads of messages with a chain of serializers.
//
// # The chain
// A Chain tries first the serializers for a message's declared content type: those that name it
// before those with a wildcard. Then it tries all others in the configured order. AMQP values and
// sequences are read without a serializer. A payload with a content encoding, such as gzip, is not
// decoded.
//
// # Transcoding
// A Transcoder is an interceptor that gives receivers what they accept. It rewrites a body only if
// the receiver prefers another content type, which a serializer can write. The body then becomes a
// data body of that content type. Everything else stays the same, byte for byte; so does a payload
// that cannot be read, or cannot be written in any accepted type. With receive-and-delete, a
// message is removed after it was rewritten.
//
// # Entities with a chain
// An entity with its own chain promises that receivers can read what they get. Every message is
// decoded before it is delivered, even if it is not transcoded. If no serializer of the chain can
// decode it, it becomes a dead letter with the reason DeserializationFailed and a description of
// what was tried. This is not counted as a delivery and uses no credit. If a serializer is Busy,
// the message stays locked for a while, and is then released without a failed delivery. Payloads in
// dead-letter queues, of deferred messages and of peeked messages are delivered as they are if they
// cannot be decoded.
package payload
