package main

import (
	"crypto/tls"
	"net"
	"strings"
	"sync"

	"github.com/crosstown-mq/crosstown/gateway/internal/devca"
)

// maxIssued is how many certificates are kept; then they are made anew.
const maxIssued = 1000

// issued are certificates for hosts of namespaces, which the development CA makes at the first
// handshake for one: namespaces come and go.
type issued struct {
	ca *devca.Authority

	mu         sync.Mutex
	namespaces answers // nil: there are none yet
	byHost     map[string]*tls.Certificate
}

// serve has certificates made for the hosts of namespaces. On nil it does nothing.
func (i *issued) serve(namespaces answers) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.namespaces = namespaces
}

// forHello is that of certificate: nil means the gateway's own certificate.
func (i *issued) forHello(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	host := strings.ToLower(hello.ServerName)
	if name, _, err := net.SplitHostPort(host); err == nil { // go-amqp asks for HOST:PORT
		host = name
	}
	if host == "" || i.ca.Certificate.Leaf.VerifyHostname(host) == nil {
		return nil, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.namespaces == nil || !i.namespaces.Answers(host) {
		return nil, nil
	}
	if known := i.byHost[host]; known != nil {
		return known, nil
	}
	made, err := i.ca.Issue(host)
	if err != nil {
		return nil, err
	}
	if i.byHost == nil || len(i.byHost) >= maxIssued {
		i.byHost = map[string]*tls.Certificate{}
	}
	i.byHost[host] = made
	return made, nil
}
