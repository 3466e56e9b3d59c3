// Package payload reads and rewrites the payloads of messages, through a chain
// of serializers.
//
// # The chain
//
// A Chain tries the serializers that serve a message's declared content type
// first, those that name it exactly before those that match it by a wildcard,
// and then all others in the configured order. AMQP values and sequences need
// no serializer to be read. A payload with a content encoding, such as gzip, is
// not decoded.
//
// # Transcoding
//
// A Transcoder is an interceptor that gives receivers what they accept. A body is rewritten only if
// the receiver prefers another content type to the body's, and a serializer writes that other type.
// The body then becomes a data body of the new content type. Everything else stays as it is, byte
// for byte; so does a payload that cannot be read, or cannot be written in any accepted type. Under
// receive-and-delete, a message is removed after it was rewritten.
//
// # Entities with a chain
//
// An entity with a chain of its own promises that receivers can read what they get. Every message
// that is received from it is decoded first, even if it is not transcoded, and one that no
// serializer of the chain can decode is dead-lettered with the reason DeserializationFailed and a
// description of what was tried, in order. This is not counted as a delivery and uses no credit. If
// a serializer is Busy, its message waits, locked, and is at last released without a failed
// delivery. Dead-letter queues, deferred messages and peeking never dead-letter: there such
// payloads are delivered as they are.
package payload
