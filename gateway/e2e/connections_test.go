package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// shownConnection is a connection as the administration API shows it.
type shownConnection struct {
	ID, Protocol, Product string
	Links                 []struct{ Entity, Direction string }
}

// linesOf returns what a command lists.
func linesOf[T any](e *env, args ...string) (all []T) {
	e.Helper()
	for lines := json.NewDecoder(strings.NewReader(e.crosstown(append(args, "--json")...))); lines.More(); {
		var one T
		if err := lines.Decode(&one); err != nil {
			e.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// connectionsOf lists the connections that use an entity.
func (e *env) connectionsOf(entity string) (all []shownConnection) {
	e.Helper()
	for _, c := range linesOf[shownConnection](e, "connection", "list") {
		for _, l := range c.Links {
			if l.Entity == entity {
				all = append(all, c)
				break
			}
		}
	}
	return all
}

// A client whose connection an operator closes connects again by itself, and no message is lost: neither those
// that it sends nor those that it receives.
func TestAClientComesBackWhenItsConnectionIsClosed(t *testing.T) {
	tell(t, func(e *env) {
		const closings = 3
		// However busy the machine is, no message becomes a dead letter.
		queue := e.queue(&admin.QueueProperties{LockDuration: new("PT5S"), MaxDeliveryCount: new(int32(1000))})
		ctx, cancel := context.WithTimeout(e.Context(), 4*patience)
		defer cancel()
		client := func() *azservicebus.Client {
			o := &azservicebus.ClientOptions{TLSConfig: e.tls(), RetryOptions: azservicebus.RetryOptions{MaxRetries: 10, RetryDelay: 1e6}}
			c, err := azservicebus.NewClientFromConnectionString(e.connection(), o)
			if err != nil {
				e.Fatal(err)
			}
			e.Cleanup(func() { _ = c.Close(ctx) })
			return c
		}
		sender, err := client().NewSender(queue, nil)
		if err != nil {
			e.Fatal(err)
		}
		receiver, err := client().NewReceiverForQueue(queue, nil)
		if err != nil {
			e.Fatal(err)
		}
		var sent atomic.Int64
		enough, ahead := make(chan struct{}), make(chan struct{}, 50) // messages that are not received yet
		var work sync.WaitGroup
		work.Go(func() {
			for {
				select {
				case <-enough:
					return
				default:
				}
				if err := sender.SendMessage(ctx, &azservicebus.Message{Body: fmt.Append(nil, sent.Load())}, nil); err != nil {
					e.Errorf("send: %v", err)
					return
				}
				sent.Add(1)
				select {
				case ahead <- struct{}{}:
				case <-enough:
				}
			}
		})
		complete := func(m *azservicebus.ReceivedMessage) error { // the SDK waits for ever when the connection was closed
			brief, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			return receiver.CompleteMessage(brief, m, nil)
		}
		got := map[string]bool{}
		work.Go(func() {
			for sending := true; ctx.Err() == nil && (sending || len(got) < int(sent.Load())); {
				select {
				case <-enough:
					sending = false
				default:
				}
				ms, err := receiver.ReceiveMessages(ctx, 10, nil)
				if err != nil {
					e.Logf("receive: %v", err) // the next call connects again
				}
				for _, m := range ms {
					if !got[string(m.Body)] {
						got[string(m.Body)] = true
						select {
						case <-ahead:
						default:
						}
					}
					if err := complete(m); err != nil {
						break // the connection is lost: what is locked is delivered again
					}
				}
			}
		})
		closed := map[string]bool{}
		e.eventually("connections to be closed", func() bool {
			for _, c := range e.connectionsOf(queue) {
				if closed[c.ID] {
					continue
				}
				closed[c.ID] = true
				if out := e.crosstown("connection", "close", c.ID); !strings.Contains(out, "closed connection "+c.ID+" of MSGolangClient") {
					e.Errorf("got %s", out)
				}
			}
			return len(closed) >= closings
		})
		e.post(e.sender(queue), &azservicebus.Message{Body: []byte("last")}) // which ends a receive that waits
		close(enough)
		work.Wait()
		if n := sent.Load(); len(got) < int(n) {
			e.Errorf("%d of %d messages arrived", len(got), n)
		}
	}, "file/tcp", "redis/tls")
}

func TestConnectionsAreClosedByThoseWhoManage(t *testing.T) {
	tell(t, func(e *env) {
		queue := e.queue(nil)
		s := e.events("/"+queue+"/messages/stream", nil)
		var id string
		e.eventually("the stream to be listed", func() bool {
			all := e.connectionsOf(queue)
			if len(all) == 1 {
				id = all[0].ID
			}
			return len(all) == 1 && all[0].Protocol == "event stream"
		})
		const path = "$crosstown/connections"
		e.wantHTTP(e.http(http.MethodDelete, path, "", nil), http.StatusMethodNotAllowed)
		e.wantHTTP(e.http(http.MethodGet, path+"/"+id, "", nil), http.StatusMethodNotAllowed)
		e.wantHTTP(e.http(http.MethodDelete, path+"/none", "", nil), http.StatusNotFound)
		n := e.createNamespace()
		if a := e.httpAs(n.token(), http.MethodGet, path, "", nil); a.body != "{\"connections\":[]}\n" {
			e.Errorf("from another namespace: got %d %s", a.status, a.body)
		}
		e.wantHTTP(e.httpAs(n.token(), http.MethodDelete, path+"/"+id, "", nil), http.StatusNotFound)
		e.wantHTTP(e.http(http.MethodDelete, path+"/"+id, "", nil), http.StatusOK)
		e.eventually("the stream to end", func() bool { return len(e.connectionsOf(queue)) == 0 })
		_ = s
	}, "memory/tls")
}
