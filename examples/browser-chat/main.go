// Browser-chat is a chat among pages. Each message of a page is published to a topic, and each page
// has its own subscription. See README.md.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/examples/internal/local"
)

//go:embed page
var page embed.FS

func main() {
	port := flag.Int("port", 8080, "port of the page on localhost")
	local.Main("browser-chat", func(ctx context.Context, binary string, out io.Writer) error { return run(ctx, binary, *port, out) })
}

// run serves the page until ctx ends, and prints its address. Port 0 means any free port.
func run(ctx context.Context, binary string, port int, out io.Writer) (err error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	origin := fmt.Sprintf("http://localhost:%d", ln.Addr().(*net.TCPAddr).Port)

	// Pages may send and receive, but change nothing.
	g, err := local.Start(ctx, binary, "--websocket-origins", origin, "--policy", policy+"="+key+":Send,Listen")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop()) }()
	manager, err := g.Admin()
	if err != nil {
		return err
	}
	// With duplicate detection, a page may send a message again if it received no answer.
	if _, err := manager.CreateTopic(ctx, topic, &admin.CreateTopicOptions{
		Properties: &admin.TopicProperties{RequiresDuplicateDetection: new(true)},
	}); err != nil {
		return err
	}

	files, err := fs.Sub(page, "page")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.Handle("POST /join", &door{manager, g.Address})
	mux.HandleFunc("GET /token", giveToken)
	server := &http.Server{Handler: http.NewCrossOriginProtection().Handler(mux), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	_, _ = fmt.Fprintf(out, "Open %s in two windows.\n", origin)
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
