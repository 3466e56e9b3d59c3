package listen

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestSniff(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, first string
		want        protocol
		err         error
	}{
		{"TLS client hello", "\x16\x03\x01\x02\x00", protocolTLS, nil},
		{"one byte of TLS", "\x16", protocolTLS, nil},
		{"AMQP header", "AMQP\x00\x01\x00\x00", protocolAMQP, nil},
		{"SASL header", "AMQP\x03\x01\x00\x00", protocolAMQP, nil},
		{"HTTP", "GET / HTTP/1.1\r\n", protocolHTTP, nil},
		{"a method with A", "ACL / HTTP/1.1\r\n", protocolHTTP, nil},
		{"almost AMQP", "AMQ /", protocolHTTP, nil},
		{"garbage", "\x00\xff", protocolHTTP, nil},
		{"an older TLS hello", "\x80\x2e\x01", protocolHTTP, nil},
		{"nothing", "", 0, io.EOF},
		{"less than enough", "AMQ", 0, io.EOF},
	}
	for _, c := range cases {
		for how, r := range map[string]io.Reader{
			"at once":      strings.NewReader(c.first),
			"byte by byte": iotest.OneByteReader(strings.NewReader(c.first)),
		} {
			t.Run(c.name+" "+how, func(t *testing.T) {
				t.Parallel()
				got, head, err := sniff(r)
				if got != c.want || !errors.Is(err, c.err) {
					t.Fatalf("sniff(%q): got %v, %v, want %v, %v", c.first, got, err, c.want, c.err)
				}
				rest, _ := io.ReadAll(r)
				if string(head)+string(rest) != c.first {
					t.Errorf("read again: got %q, want %q", string(head)+string(rest), c.first)
				}
			})
		}
	}
}
