package main

import (
	"net"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// A connection string needs a key, which a policy with a certificate does not have.
func TestTheConnectionStringHasAPolicyWithAKey(t *testing.T) {
	t.Parallel()
	operator := config.Policy{Name: "operator", Certificate: "CN=operator", Rights: core.AllRights}
	sender := config.Policy{Name: "sender", Key: "sender-key-sender-key-1", Rights: core.Send}
	manager := config.Policy{Name: "manager", Key: "manager-key-manager-key-1", Rights: core.AllRights}
	for want, policies := range map[string][]config.Policy{
		"SharedAccessKeyName=sender;SharedAccessKey=<key of sender>":   {operator, sender},
		"SharedAccessKeyName=manager;SharedAccessKey=<key of manager>": {operator, sender, manager},
		"SharedAccessKeyName=<no policy has a key>":                    {operator},
	} {
		c := config.Default()
		c.Listen, c.Policies = []string{"0.0.0.0:5672"}, policies
		a := announcement{server: &server{c: c, listeners: []net.Listener{listener{address: "127.0.0.1:5672"}}, certificate: &certificate{}}}
		if text := a.text(); !strings.Contains(text, want) || len(c.Policies) != len(policies) || c.Policies[0].Name != "operator" {
			t.Errorf("got\n%s\nwant %s, and the policies %v unchanged", text, want, policies)
		}
	}
}
