package bridges

import "strings"

// Peer is what core.WithPeer takes: the protocol and address of a client, and
// what it calls itself, if it does.
func Peer(protocol, address, product string) string {
	return strings.TrimRight(protocol+" "+address+" "+product, " ")
}
