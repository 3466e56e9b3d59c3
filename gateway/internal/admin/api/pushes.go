package api

import "github.com/crosstown-mq/crosstown/bridges/webhooks"

// PushesPath is the endpoint of pushes.
const PushesPath = "/$crosstown/pushes"

// Push is the state of a push at this gateway, with the namespace of its entity.
type Push struct {
	Namespace string `json:"namespace"`
	webhooks.PushState
}
