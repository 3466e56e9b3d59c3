package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/cli/command"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

type testServer struct {
	ConnectionString string `json:"connectionString"`
	WithTLS          string `json:"tlsConnectionString"`
	CA               string `json:"ca,omitempty"` // file with the certificate that TLS clients must trust
	// CustomEndpoint is for an option of the .NET client. Without it, the client ignores the TLS port.
	CustomEndpoint string `json:"customEndpointAddress"`
	Address        string `json:"address"` // host:port for everything
	URL            string `json:"url"`
	Authorization  string `json:"authorization"`
	PID            int    `json:"pid"`
	Version        string `json:"version"`
}

const testServerLife = 7 * 24 * time.Hour

func testServerCommand() *cobra.Command {
	var file, level string
	c := &cobra.Command{
		Use:   "test-server",
		Short: "Serve from memory for a test suite, until standard input ends",
		Long: `Serve from memory, on a free port of the loopback interface, for the tests of a program in any
language. Once it is ready the command prints one line of JSON to standard output:

  {"connectionString":"Endpoint=sb://localhost:…","tlsConnectionString":"…","ca":"/tmp/…/ca.pem",
   "customEndpointAddress":"sb://localhost:…","address":"localhost:…","url":"http://localhost:…","authorization":"SharedAccessSignature …","pid":…,"version":"…"}

.NET's client ignores the port in tlsConnectionString: set the client's option
CustomEndpointAddress to customEndpointAddress.

The namespace has virtual time. To move the time, send {"advance":"5m"} with PUT to
/$crosstown/clock below url, with authorization as the header Authorization.

The server ends when its standard input is closed. It therefore ends with the process that
started it, even if that process is killed. It also ends on an interrupt. It ignores environment
variables; --config specifies a file with queues, topics and other settings.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return serveTests(c.Context(), file, level, c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration `FILE` in YAML; its listeners, store and data directory are ignored")
	c.Flags().StringVar(&level, "log-level", "warn", "debug, info, warn or error; the log goes to standard error")
	_ = c.Flags().SetAnnotation("log-level", config.FlagValues, []string{"debug", "info", "warn", "error"}) // the flag exists
	return c
}

func serveTests(ctx context.Context, file, level string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "crosstown-test-server-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.Bind(flags)
	given := map[string]string{"store": "memory", "virtual-time": "true", "allow-faults": "true", "listen": "127.0.0.1:0", "data": dir, "drain-timeout": "1s", "log-level": level}
	if file != "" {
		given["config"] = file
	}
	for name, value := range given {
		if err := flags.Set(name, value); err != nil {
			return err
		}
	}
	settings, err := config.Load(flags, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, stdin)
	}()
	again := signals{level: new(slog.LevelVar)}
	_ = again.level.UnmarshalText([]byte(settings.Log.Level)) // no error: config.Load has validated it
	return serve(ctx, settings, func(a *announcement) error {
		plain, secure, address := a.connections()
		return command.NewEncoder(stdout).Encode(testServer{
			ConnectionString: plain, WithTLS: secure, CA: a.certificate.caFile, CustomEndpoint: "sb://" + address, Address: address, URL: "http://" + address,
			Authorization: auth.SignSAS("http://"+address+"/", config.DevPolicy, config.DevKey, time.Now().Add(testServerLife)), PID: os.Getpid(), Version: versionText(),
		})
	}, newLogger(stderr, settings.Log, again.level), again)
}
