// Package frame reads and writes the contents of frames of the WebSocket protocol: messages,
// properties and typed values, in JSON and MessagePack. It does no I/O.
//
// Split checks a whole frame: its syntax, nesting and UTF-8. A Reader then reads parts of the frame
// and never meets malformed data. If a part is well-formed but not what the caller requests, the
// error is an *Error, which names the member.
//
// AppendValue translates a value of a frame to the encoding of core/value, which messages contain,
// and WriteValue translates it back. ReadMessage, WriteMessage and WriteDelivery translate
// messages. PROTOCOL.md in bridges/websocket describes the form of values and messages in frames.
package frame
