package remote

import (
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/core/store/memory"
)

// faulty is a connection to a peer that sends a second protocol header after a while.
type faulty struct{ net.Conn }

func (c faulty) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return copy(p, "AMQP\x00\x01\x00\x00"), nil
	}
	return n, err
}

// A remote that breaks the protocol on each connection is connected less and less often, because
// each connection may cost much.
func TestARemoteThatBreaksTheProtocolIsConnectedRarely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		b := broker.New(memory.New(memory.Options{}), broker.Options{Namespace: "ns"})
		bridge := amqp.New(b, auth.New(auth.Options{Policies: []core.AccessRule{{Name: "root", PrimaryKey: "key", Rights: core.AllRights}}}), amqp.Options{})
		var dials atomic.Int32
		r := New(Options{Name: "hq", Host: "localhost", Policy: "root", Key: "key", Dial: func(context.Context) (net.Conn, error) {
			dials.Add(1)
			ours, theirs := net.Pipe()
			go func() { _ = bridge.ServeConn(ctx, theirs) }() // it ends with the connection
			time.AfterFunc(time.Second, func() { _ = ours.SetReadDeadline(time.Unix(1, 0)) })
			return faulty{ours}, nil
		}})
		go func() { _ = r.Run(ctx, Local{Broker: b, Identity: root}) }()
		time.Sleep(10 * time.Minute)
		if n := dials.Load(); n < 20 || n > 120 {
			t.Errorf("%d connections in 10 minutes, want at most one in 5 seconds", n)
		}
	})
}
