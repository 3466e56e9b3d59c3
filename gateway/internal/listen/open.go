package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
)

// Open listens on all addresses, or fails and listens on none. The error names each failed address.
func Open(ctx context.Context, addresses []string) ([]net.Listener, error) {
	var (
		config    net.ListenConfig
		listeners []net.Listener
		errs      []error
	)
	for _, address := range addresses {
		ln, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			errs = append(errs, explain(address, err))
			continue
		}
		listeners = append(listeners, ln)
	}
	if len(errs) > 0 {
		for _, ln := range listeners {
			_ = ln.Close()
		}
		return nil, errors.Join(errs...)
	}
	return listeners, nil
}

func explain(address string, err error) error {
	_, port, _ := net.SplitHostPort(address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot listen on %s: port %s is in use: stop the program that holds it (find it with: ss -ltnp 'sport = :%s'), or choose other addresses with --listen", address, port, port)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("cannot listen on %s: the current user may not open port %s: choose a port above 1023 with --listen, or grant CAP_NET_BIND_SERVICE", address, port)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("cannot listen on %s: this machine has no such address: choose one of its own with --listen, or 0.0.0.0 for all", address)
	default:
		return fmt.Errorf("cannot listen on %s: %w", address, err)
	}
}

// IsLoopback reports whether only this machine can reach address, host:port. It takes every name
// except localhost as reachable for others.
func IsLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}
