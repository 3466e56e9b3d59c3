// Package frame reads and writes what the frames of the WebSocket protocol hold: messages, properties
// and typed values, in JSON and MessagePack alike, without I/O.
//
// Split checks a frame completely, syntax, nesting and UTF-8; a Reader then goes through parts of
// it and cannot meet anything that is not well-formed. If a part is well-formed but not what the
// caller requests, the error is an *Error, which names the member.
//
// AppendValue and WriteValue translate between frames and the typed values of AMQP, whose encoding in
// core/value is what messages carry; ReadMessage, WriteMessage and WriteDelivery do so for messages.
// PROTOCOL.md in bridges/websocket says how all of these look.
package frame
