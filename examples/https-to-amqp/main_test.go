package main

import (
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/examples/internal/local"
)

func TestBothWays(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), "", &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		// from HTTPS to AMQP
		`body: {"order":1}`, `Body: {"order":1}`, "ContentType: application/json", "MessageID: order-1", "Subject: new", "TimeToLive: 1h0m0s",
		"Colour: string red", "Weight: float64 2.5", "Express: bool true", "Placed: time.Time 1994-11-06T08:49:37Z",
		// from AMQP to HTTPS
		"body: a parcel", "Content-Type: text/plain", `"MessageId":"parcel-7"`, `"Label":"returned"`, `Colour: "blue"`, "Count: 43", "Weight: 2.25",
		"Express: false", `Placed: "Fri, 02 Jan 2026 03:04:05 GMT"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// A gateway that runs is used, and is left as it was.
func TestARunningGatewayIsUsed(t *testing.T) {
	t.Parallel()
	own, err := local.Start(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Stop() }()
	address := strings.TrimPrefix(own.Address, "http://")
	g, err := local.Running(t.Context(), address, own.CA)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := tell(t.Context(), g, &out); err != nil || !strings.Contains(out.String(), "Endpoint=sb://"+address+";") {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	manager, err := own.Admin()
	if err != nil {
		t.Fatal(err)
	}
	page, err := manager.NewListQueuesPager(nil).NextPage(t.Context())
	if err != nil || len(page.Queues) > 0 {
		t.Errorf("left behind: %v, %v", page.Queues, err)
	}
	if _, err := local.Running(t.Context(), "localhost:1", own.CA); err == nil {
		t.Error("a gateway runs where none is")
	}
}
