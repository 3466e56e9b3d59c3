// Package local starts a gateway of an example's own, and connects the official
// SDK to it. With a gateway that runs somewhere a program needs none of this,
// only its connection string.
package local

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// Gateway is a running gateway.
type Gateway struct {
	Connection string // a connection string, with TLS
	Address    string // for pages, without TLS: http://localhost:PORT
	TLS        *tls.Config
	Store      string // what the gateway says of its store

	dir     string
	command *exec.Cmd
}

// Start runs a gateway on its embedded default, with more flags if need be, and
// waits until it is ready. Without the path of a binary it builds one.
func Start(ctx context.Context, binary string, flags ...string) (g *Gateway, err error) {
	dir, err := os.MkdirTemp("", "crosstown-example-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	if binary == "" {
		binary = filepath.Join(dir, "crosstown")
		if built, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "github.com/crosstown-mq/crosstown/gateway").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the gateway: %w\n%s", err, built)
		}
	}
	flags = append([]string{"--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data"), "--log-level", "warn"}, flags...)
	g = &Gateway{dir: dir, command: exec.Command(binary, flags...)}
	g.command.Stderr = os.Stderr
	apart(g.command)
	if err := g.launch(); err != nil {
		return nil, err
	}
	return g, nil
}

// launch reads from the start-up lines how to connect.
func (g *Gateway) launch() error {
	stdout, err := g.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := g.command.Start(); err != nil {
		return fmt.Errorf("start the gateway: %w", err)
	}
	ca := ""
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		label, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), "  ")
		value = strings.TrimSpace(value)
		switch label {
		case "with TLS":
			g.Connection = value
		case "trust":
			ca = value
		case "store":
			g.Store = value
		case "health": // the last line
			g.Address = strings.TrimSuffix(value, "/health")
			return g.trust(ca)
		}
	}
	return errors.Join(errors.New("the gateway did not become ready"), g.command.Wait())
}

// trust reads the development CA. A program with a certificate of a known
// authority before it needs no such thing.
func (g *Gateway) trust(file string) error {
	pem, err := os.ReadFile(file)
	if err != nil {
		return errors.Join(err, g.Stop())
	}
	g.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	g.TLS.RootCAs.AppendCertsFromPEM(pem)
	return nil
}

// Stop ends the gateway in good order and removes what it has stored.
func (g *Gateway) Stop() error {
	err := g.command.Process.Signal(syscall.SIGTERM)
	if err == nil {
		err = g.command.Wait()
	}
	return errors.Join(err, os.RemoveAll(g.dir))
}

// Client is the SDK's client.
func (g *Gateway) Client() (*azservicebus.Client, error) {
	return azservicebus.NewClientFromConnectionString(g.Connection, &azservicebus.ClientOptions{TLSConfig: g.TLS})
}

// Admin is the SDK's management client.
func (g *Gateway) Admin() (*admin.Client, error) {
	return admin.NewClientFromConnectionString(g.Connection, &admin.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: &http.Transport{TLSClientConfig: g.TLS}}},
	})
}
