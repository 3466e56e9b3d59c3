package listen

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestStrangerThatGotLeastFarMakesRoom lets strangers come as far as their bytes say.
func TestStrangerThatGotLeastFarMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := NewAdmission(AdmissionOptions{Connections: 100, Strangers: 4})
		m := New(nil, Options{Admission: a})
		closed := func(c *Conn) bool { return c.closed.Load() }
		enter := func(says string) *Conn {
			client, there := net.Pipe()
			t.Cleanup(func() { _ = client.Close() })
			c := a.Enter(there)
			if says != "" {
				go func() { _, _ = io.WriteString(client, says) }()
				if len(says) < 4 {
					_, _ = c.Read(make([]byte, 1))
				} else if _, _, err := m.identify(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
			return c
		}
		hello, part, nothing, last := enter("AMQP\x00\x01\x00\x00"), enter("\x16"), enter(""), enter("AMQP\x00\x01\x00\x00")
		time.Sleep(2 * newFor) // until then they are new
		for i, want := range []*Conn{nothing, part, nil} {
			newcomer := enter("AMQP\x00\x01\x00\x00")
			if want != nil && !closed(want) || want == nil && !closed(hello) {
				t.Errorf("newcomer %d: another makes room than the one that has come least far, and came first", i)
			}
			if closed(newcomer) || closed(last) {
				t.Errorf("newcomer %d: one that came later made room", i)
			}
		}
	})
}
