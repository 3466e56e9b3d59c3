package listen

import "io"

type protocol uint8

const (
	protocolHTTP protocol = iota
	protocolAMQP
	protocolTLS
)

// recordHandshake is the content type of the record that opens TLS (RFC 8446 §5.1).
const recordHandshake = 0x16

// amqpHeader opens every AMQP protocol header (AMQP 1.0 §2.2). No HTTP method
// begins with it.
const amqpHeader = "AMQP"

// sniff reads as little as tells what the peer speaks, and returns that with
// the bytes read. Whatever is neither TLS nor AMQP is left to HTTP, whose
// server has an answer for garbage.
func sniff(r io.Reader) (protocol, []byte, error) {
	head := make([]byte, 0, len(amqpHeader))
	for {
		n, err := r.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		switch {
		case len(head) > 0 && head[0] == recordHandshake:
			return protocolTLS, head, nil
		case string(head) == amqpHeader:
			return protocolAMQP, head, nil
		case string(head) != amqpHeader[:len(head)]:
			return protocolHTTP, head, nil
		case err != nil:
			return 0, head, err
		}
	}
}
