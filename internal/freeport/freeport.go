// Package freeport gives TCP ports of loopback to tests that must know a
// port before a server listens on it.
//
// The ports lie below those that operating systems give to outgoing connections
// and to listeners on port 0. They come in blocks. A process claims a block by
// listening on its first port for as long as the process lives, so two test
// processes never return the same port, even while no server listens on it.
package freeport

import (
	"errors"
	"net"
	"strconv"
	"sync"
)

// The ports of the blocks are first to first+blocks*size-1. The ports 10000 above them are also
// free, because the bus of a Redis Cluster uses them.
const (
	first  = 12000
	blocks = 100
	size   = 100
	bus    = 10000
)

// errNone says that other processes have every block.
var errNone = errors.New("freeport: every block of ports is claimed; end other test processes")

// claimed are the blocks of this process; only the last one has ports left.
var claimed struct {
	sync.Mutex
	listeners []net.Listener // held so that other processes see the claims
	next, end int
}

// Take returns a port of loopback on which no server listens. No other call returns the same port,
// in this process or another.
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

// claim claims a block that no process has.
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
