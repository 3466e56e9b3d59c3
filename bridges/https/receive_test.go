package https

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// listening notes what receivers accept.
type listening struct {
	*fakeBus
	accept chan string
}

func (l listening) OpenReceiver(ctx context.Context, id core.Identity, address core.Address, o core.ReceiverOptions) (core.Receiver, error) {
	l.accept <- o.Accept
	return l.fakeBus.OpenReceiver(ctx, id, address, o)
}

func TestReceiveSaysWhatTheClientAccepts(t *testing.T) {
	t.Parallel()
	f := newFakeBus("q")
	l := listening{f, make(chan string, 1)}
	b := New(l, f, Options{Logger: quiet()})
	for want, headers := range map[string][]string{
		"":                               nil,
		"application/json":               {"Accept: application/json"},
		"application/json,text/*; q=0.5": {"Accept: application/json", "Accept: text/*; q=0.5"},
	} {
		call(b, "POST", "/q/messages/head?timeout=0", "", headers...)
		if got := <-l.accept; got != want {
			t.Errorf("%q: got %q, want %q", headers, got, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var streaming sync.WaitGroup
	streaming.Go(func() {
		r := httptest.NewRequestWithContext(ctx, "GET", "/q/messages/stream?mode=receiveanddelete&accept=application/json,text/*", nil)
		r.Header.Set("Authorization", "SharedAccessSignature all")
		b.Handler().ServeHTTP(httptest.NewRecorder(), r)
	})
	if got, want := <-l.accept, "application/json,text/*"; got != want {
		t.Errorf("stream: got %q, want %q", got, want)
	}
	cancel()
	streaming.Wait()
}
