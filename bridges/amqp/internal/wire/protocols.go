package wire

// Protocol is the layer that a protocol header announces.
type Protocol uint8

// The layers, AMQP 1.0 §2.2, §5.2 and §5.3.
const (
	ProtocolAMQP Protocol = 0
	ProtocolTLS  Protocol = 2
	ProtocolSASL Protocol = 3
)

// ProtocolHeaderSize is the length in bytes of a protocol header.
const ProtocolHeaderSize = 8

// ParseProtocolHeader returns the layer that the first 8 bytes of b announce in version 1.0.0. Anything else is
// amqp:connection:framing-error; the answer to it is a header that is supported, and then the end of the connection.
func ParseProtocolHeader(b []byte) (Protocol, error) {
	if len(b) < ProtocolHeaderSize {
		return 0, refuse(CondFramingError, "a protocol header of %d bytes", len(b))
	}
	p := Protocol(b[4])
	known := p == ProtocolAMQP || p == ProtocolTLS || p == ProtocolSASL
	if !known || string(b[:4]) != "AMQP" || b[5] != 1 || b[6] != 0 || b[7] != 0 {
		return 0, refuse(CondFramingError, "unknown protocol header %x", b[:ProtocolHeaderSize])
	}
	return p, nil
}

// AppendProtocolHeader appends the header that announces p.
func AppendProtocolHeader(dst []byte, p Protocol) []byte {
	return append(dst, 'A', 'M', 'Q', 'P', byte(p), 1, 0, 0)
}
