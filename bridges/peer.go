package bridges

import (
	"net/netip"
	"strings"
)

// Peer is what core.WithPeer takes: the protocol and address of a client, and
// what it calls itself, if it does.
func Peer(protocol, address, product string) string {
	return strings.TrimRight(protocol+" "+address+" "+product, " ")
}

// Network is an address as far as one network is given to one customer: all of IPv4's, and the first
// 64 bits of IPv6's.
func Network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() && !a.IsLoopback() {
		if network, err := a.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return a
}
