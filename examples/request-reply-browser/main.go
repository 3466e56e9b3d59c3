// Request-reply-browser lets a page ask and a program answer. The page uses WebSocket, and the
// program uses the official SDK. See README.md.
package main

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
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

const (
	questions = "questions"
	answers   = "answers" // with a session for each page
)

// Pages sign in with this policy. Only this program and the gateway know its key.
const policy = "pages"

var key = rand.Text()

func main() {
	port := flag.Int("port", 8080, "port of the page on localhost")
	local.Main("request-reply-browser", func(ctx context.Context, binary string, out io.Writer) error { return run(ctx, binary, *port, out) })
}

// run serves the page and answers questions until ctx ends, and prints the page's address. Port 0
// means any free port.
func run(ctx context.Context, binary string, port int, out io.Writer) (err error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer func() { _ = ln.Close() }()
	origin := fmt.Sprintf("http://localhost:%d", ln.Addr().(*net.TCPAddr).Port)
	g, err := local.Start(ctx, binary, "--websocket-origins", origin, "--policy", policy+"="+key+":Send,Listen")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop()) }()
	if err := createQueues(ctx, g); err != nil {
		return err
	}
	client, err := g.Client()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close(context.WithoutCancel(ctx))) }()

	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() {
		worked <- work(working, client)
		stop() // without a worker, the page is useless
	}()
	_, _ = fmt.Fprintf(out, "Open %s\n", origin)
	err = serve(working, ln, g.Address)
	stop()
	return errors.Join(err, <-worked)
}

func createQueues(ctx context.Context, g *local.Gateway) error {
	manager, err := g.Admin()
	if err != nil {
		return err
	}
	// With duplicate detection, a page may send a question again if it received no answer.
	asked := &admin.QueueProperties{RequiresDuplicateDetection: new(true)}
	_, err = manager.CreateQueue(ctx, questions, &admin.CreateQueueOptions{Properties: asked})
	if err != nil {
		return err
	}
	answered := &admin.QueueProperties{RequiresSession: new(true), DefaultMessageTimeToLive: new("PT5M")} // some pages will have closed
	_, err = manager.CreateQueue(ctx, answers, &admin.CreateQueueOptions{Properties: answered})
	return err
}

func serve(ctx context.Context, ln net.Listener, gateway string) error {
	files, err := fs.Sub(page, "page")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /pass", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(map[string]any{ // the page may have disconnected
			"gateway": gateway,
			"tokens":  []string{local.Sign(questions, policy, key, time.Hour), local.Sign(answers, policy, key, time.Hour)},
		})
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
