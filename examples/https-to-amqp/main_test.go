package main

import (
	"strings"
	"testing"
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
