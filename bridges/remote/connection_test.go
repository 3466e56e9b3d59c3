package remote

import (
	"context"
	"sync"
	"testing"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/internal/eventually"
)

// With Sender.Send, one of about 300 calls that are in progress when the context and the connection end
// does not return.
func TestASendEndsWithItsContext(t *testing.T) {
	t.Parallel()
	there := newSite(t, nil)
	for i := range 1000 {
		ctx, cancel := context.WithCancel(t.Context())
		nc, err := there.way.dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := goamqp.NewConn(ctx, nc, &goamqp.ConnOptions{SASLType: goamqp.SASLTypeAnonymous()})
		if err != nil {
			t.Fatal(err)
		}
		session, err := conn.NewSession(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		link, err := session.NewSender(ctx, "$cbs", nil)
		if err != nil {
			t.Fatal(err)
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		sending, answered := sync.WaitGroup{}, make(chan struct{}, 50)
		for range 20 {
			sending.Go(func() {
				for ctx.Err() == nil {
					_ = send(ctx, link, &goamqp.Message{Value: "x"})
					select {
					case answered <- struct{}{}:
					default:
					}
				}
			})
		}
		for range i % 50 {
			<-answered
		}
		cancel()
		ended := make(chan struct{})
		go func() {
			sending.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(eventually.Bound):
			t.Fatal("a call has not returned")
		}
	}
}
