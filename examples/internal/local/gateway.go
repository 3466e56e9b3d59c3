// Package local starts a gateway for an example, and connects the official SDK to it. A program for
// an existing gateway needs only its connection string.
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
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/internal/built"
)

type Gateway struct {
	Connection string // with TLS
	Address    string // http://localhost:PORT for pages, without TLS
	TLS        *tls.Config
	CA         string // file of the trusted development CA
	Store      string // the gateway's description of its store

	dir     string
	command *exec.Cmd // nil for a gateway that already runs
}

// Defaults of a gateway that make run starts.
const (
	DefaultAddress = "localhost:5672"
	devPolicy      = "RootManageSharedAccessKey"
	devKey         = "SAS_KEY_VALUE"
)

// DefaultCA returns the file of the development CA of a gateway with its defaults.
func DefaultCA() string {
	dir := os.Getenv("CROSSTOWN_DATA")
	if base := os.Getenv("XDG_DATA_HOME"); dir == "" && base != "" {
		dir = filepath.Join(base, "crosstown")
	}
	if dir == "" {
		dir = filepath.Join(os.Getenv("HOME"), ".local", "share", "crosstown")
	}
	return filepath.Join(dir, "ca.pem")
}

// Running returns the gateway at address. An error means no answer, or that it rejects the key.
func Running(ctx context.Context, address, ca string) (*Gateway, error) {
	g := &Gateway{
		Connection: fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=%s", address, devPolicy, devKey),
		Address:    "http://" + address, Store: "the store that its start-up lines name",
	}
	if err := g.trust(ca); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/$Resources/queues?$skip=0&$top=1", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", Sign("", devPolicy, devKey, time.Minute))
	response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: g.TLS}, Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close() // only the status matters
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s to the development key", address, response.Status)
	}
	return g, nil
}

// Start runs a gateway with the default store and additional flags, and waits until it is ready.
// Without the path of a binary it builds one.
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
		if binary, err = built.Gateway(dir); err != nil {
			return nil, err
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

// trust makes the example trust the CA in file, which the system does not know.
func (g *Gateway) trust(file string) error {
	pem, err := os.ReadFile(file)
	if err != nil {
		return errors.Join(err, g.Stop())
	}
	g.CA = file
	g.TLS = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	g.TLS.RootCAs.AppendCertsFromPEM(pem)
	return nil
}

// Stop ends the gateway cleanly and removes its data, unless the gateway was already running.
func (g *Gateway) Stop() error {
	if g.command == nil {
		return nil
	}
	err := g.command.Process.Signal(syscall.SIGTERM)
	if err == nil {
		err = g.command.Wait()
	}
	return errors.Join(err, os.RemoveAll(g.dir))
}

func (g *Gateway) Client() (*azservicebus.Client, error) {
	return azservicebus.NewClientFromConnectionString(g.Connection, &azservicebus.ClientOptions{TLSConfig: g.TLS})
}

func (g *Gateway) Admin() (*admin.Client, error) {
	return admin.NewClientFromConnectionString(g.Connection, &admin.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: &http.Client{Transport: &http.Transport{TLSClientConfig: g.TLS}}},
	})
}
