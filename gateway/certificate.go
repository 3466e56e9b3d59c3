package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/devca"
)

type certificate struct {
	hosts  []string
	caFile string           // path of the development CA; "" if a certificate is configured
	ca     *devca.Authority // nil if a certificate is configured
	own    atomic.Pointer[tls.Certificate]
	// current has the trusted authorities. Resumed TLS sessions are checked against them, too.
	current atomic.Pointer[tls.Config]

	mu         sync.Mutex
	namespaces answers                              // nil before the namespaces are open
	issued     *lru.Cache[string, *tls.Certificate] // by host of a namespace; nil if a certificate is configured
}

func openCertificate(c *config.Config, listeners []net.Listener) (*certificate, error) {
	cert := &certificate{hosts: hosts(c, listeners)}
	if c.TLS.Cert != "" {
		pair, err := loadPair(c)
		if err != nil {
			return nil, err
		}
		cert.own.Store(pair)
	} else {
		ca, err := devca.Open(c.Data, devca.Options{Hosts: cert.hosts, Ports: ports(listeners)})
		if errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("the current user may not write to the data directory %s: change its owner or permissions, or choose another with --data: %w", c.Data, err)
		}
		if err != nil {
			return nil, fmt.Errorf("%w. To use another data directory, set --data; to use your own certificate, set --tls-cert and --tls-key", err)
		}
		cert.own.Store(&ca.Certificate)
		cert.ca, cert.caFile = ca, ca.Path
		cert.issued, _ = lru.New[string, *tls.Certificate](maxIssued) // no error: the size is positive
	}
	authorities, err := c.TLS.Authorities()
	if err != nil {
		return nil, err
	}
	cert.trust(authorities)
	return cert, nil
}

func (c *certificate) trust(authorities *x509.CertPool) {
	// ALPN is off: with ALPN, the server rejects clients that request only other protocols. The
	// gateway recognizes the protocol by the first bytes of a connection.
	next := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.forHello}
	if authorities != nil {
		next.ClientCAs, next.ClientAuth = authorities, tls.VerifyClientCertIfGiven
	}
	c.current.Store(next)
}

// If there are more certificates than maxIssued, the least recently used is dropped.
const maxIssued = 1000

func (c *certificate) serve(namespaces answers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.namespaces = namespaces
}

// forHello signs a certificate for a namespace's host at the first handshake with this host,
// because clients create and delete namespaces at run time.
func (c *certificate) forHello(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	host := strings.ToLower(hello.ServerName)
	if name, _, err := net.SplitHostPort(host); err == nil { // go-amqp sends HOST:PORT as the server name
		host = name
	}
	if c.ca == nil || host == "" || c.ca.Certificate.Leaf.VerifyHostname(host) == nil {
		return c.own.Load(), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.namespaces == nil || !c.namespaces.Answers(host) {
		return c.own.Load(), nil
	}
	if known, ok := c.issued.Get(host); ok {
		return known, nil
	}
	made, err := c.ca.Issue(host)
	if err != nil {
		return nil, err
	}
	c.issued.Add(host, made)
	return made, nil
}

func hosts(c *config.Config, listeners []net.Listener) []string {
	all := append([]string{"localhost", "127.0.0.1", "::1"}, c.TLS.Hosts...)
	if name, err := os.Hostname(); err == nil {
		all = append(all, name)
	}
	for _, ln := range listeners {
		if addr, ok := ln.Addr().(*net.TCPAddr); ok && !addr.IP.IsUnspecified() {
			all = append(all, addr.IP.String())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func ports(listeners []net.Listener) []string {
	var all []string
	for _, ln := range listeners {
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		all = append(all, port)
	}
	return all
}
