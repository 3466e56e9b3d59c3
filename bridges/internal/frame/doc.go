// Package frame holds the two encodings of the WebSocket protocol's frames,
// JSON and MessagePack: frames to values and back, without I/O. One Reader and
// one Writer serve both, so that everything above them is written once.
//
// Split checks a frame completely, syntax, nesting and UTF-8; a Reader then
// goes through parts of it and cannot meet anything invalid. What is valid but
// not what is wanted is an *Error, which names the member.
//
// AppendValue and WriteValue translate between frames and the typed values of
// AMQP, whose encoding in core/value is what messages carry; ReadMessage,
// WriteMessage and WriteDelivery do so for messages. PROTOCOL.md in
// bridges/websocket says how all of these look.
package frame
