package main

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/examples/internal/local"
)

const topic = "chat"

// Pages sign in with this policy. Only this program and the gateway know its key.
const policy = "pages"

var key = rand.Text()

type door struct {
	manager *admin.Client
	gateway string
}

// ServeHTTP creates a page's subscription to one room. The gateway deletes it after some time
// without a receiver.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := rand.Text()
	_, err := d.manager.CreateSubscription(r.Context(), topic, name, &admin.CreateSubscriptionOptions{
		Properties: &admin.SubscriptionProperties{
			AutoDeleteOnIdle: new("PT5M"),
			LockDuration:     new("PT5S"),
			DefaultRule:      &admin.RuleProperties{Name: "room", Filter: &admin.CorrelationFilter{Subject: new(r.FormValue("room"))}},
		},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{ // the page may have disconnected
		"gateway": d.gateway, "topic": topic, "subscription": topic + "/Subscriptions/" + name,
	})
}

// giveToken issues a token with a page's rights for an hour. A real chat would check the user
// first.
func giveToken(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, local.Sign(topic, policy, key, time.Hour))
}
