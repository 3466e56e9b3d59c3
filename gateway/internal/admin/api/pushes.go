package api

import "github.com/crosstown-mq/crosstown/bridges/webhooks"

// The endpoints of webhooks: PushesPath of those that the gateway sends, HooksPath of the addresses that
// take them.
const (
	PushesPath = "/$crosstown/pushes"
	HooksPath  = "/$crosstown/hooks"
)

// Hook is an address that takes webhooks, with the namespace of its entity.
type Hook struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Path      string   `json:"path"` // of the address, without a secret
	Entity    string   `json:"entity"`
	Verify    string   `json:"verify"`
	Headers   []string `json:"headers,omitempty"` // that become application properties
}

// Push is the state of a push at this gateway, with the namespace of its entity.
type Push struct {
	Namespace string `json:"namespace"`
	webhooks.PushState
}
