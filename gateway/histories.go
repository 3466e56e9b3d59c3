package main

import (
	"cmp"
	"net"
	"os"

	"github.com/crosstown-mq/crosstown/core/broker"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// histories are which entities remember what happens to their messages.
func histories(configured []config.History) []broker.History {
	all := make([]broker.History, len(configured))
	for i, h := range configured {
		all[i] = broker.History{
			Entity: h.Entity, Keep: cmp.Or(h.Keep, config.DefaultHistory), Max: cmp.Or(h.Max, config.DefaultEvents),
		}
	}
	return all
}

// gatewayName is what this gateway is called in histories: the machine's name,
// and the port of its first listener.
func gatewayName(c *config.Config) string {
	name, err := os.Hostname()
	if err != nil {
		name = "gateway"
	}
	if len(c.Listen) == 0 {
		return name
	}
	_, port, err := net.SplitHostPort(c.Listen[0])
	if err != nil || port == "0" {
		return name
	}
	return net.JoinHostPort(name, port)
}
