// Package freeport provides TCP ports of loopback for tests that must know a port before a server
// listens on it.
//
// The ports are below those that operating systems assign to outgoing connections and to listeners
// on port 0. A process claims a block of ports by listening on its first port until the process
// ends, so two test processes never use the same port, even while no server listens on it.
package freeport

import (
	"errors"
	"net"
	"strconv"
	"sync"
)

// The blocks have the ports from first to first+blocks*size-1. Take also checks port+bus, which the
// bus of a Redis Cluster uses.
const (
	first  = 12000
	blocks = 100
	size   = 100
	bus    = 10000
)

var errNone = errors.New("freeport: every block of ports is claimed; end other test processes")

// Only the last block has unused ports.
var claimed struct {
	sync.Mutex
	listeners []net.Listener // by these, other processes see which blocks are claimed
	next, end int
}

// No other call, in this process or another, returns the same port.
func Take() (int, error) {
	claimed.Lock()
	defer claimed.Unlock()
	for {
		for claimed.next < claimed.end {
			port := claimed.next
			claimed.next++
			if free(port) && free(port+bus) {
				return port, nil
			}
		}
		if err := claim(); err != nil {
			return 0, err
		}
	}
}

func claim() error {
	for i := range blocks {
		head := first + i*size
		l, err := net.Listen("tcp", address(head))
		if err != nil {
			continue
		}
		claimed.listeners = append(claimed.listeners, l)
		claimed.next, claimed.end = head+1, head+size
		return nil
	}
	return errNone
}

func free(port int) bool {
	l, err := net.Listen("tcp", address(port))
	return err == nil && l.Close() == nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
