package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// How to add a story in JavaScript. Write it to testdata/js/NAME.mjs, with
// node:assert; any surprise is an uncaught exception, and the last line that it
// prints is "told". What it imports is pinned in package.json and
// package-lock.json there (npm install --package-lock-only --ignore-scripts
// --save-exact PACKAGE@VERSION). Every story has the variables
//
//	STORY_GATEWAY     localhost:PORT of the gateway
//	STORY_CONNECTION  a connection string with all rights
//	STORY_WEBSOCKET   1 if AMQP clients are to connect by WebSocket
//
// and those that its test adds:
//
//	e.node("NAME", "STORY_QUEUE="+e.queue(nil))
//
// A story that needs a browser imports browse from "./browser.mjs", which opens
// a page for it, and is told by
//
//	e.browser("NAME", "STORY_PAGE="+e.page("pages/NAME.mjs"))
//
// where e.page bundles a module for browsers and serves it, in an empty page of
// an origin of its own, which every gateway here lets in. Browsers are slow: put
// what belongs together into one story, and tell it on one engine.

// storyTime bounds a story.
const storyTime = 2 * patience

// Where set, it is a failure that the JavaScript packages cannot be installed,
// or that there is no Chromium; else stories are skipped then. So it is where
// CI is set.
const (
	javascriptVariable = "E2E_JS"
	browserVariable    = "E2E_BROWSER"
)

// installPackages copies the stories and installs what they need, as the lock
// file pins it, once for all tests.
var installPackages = sync.OnceValues(func() (dir string, err error) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", err
		}
	}
	const oldest = "if (parseInt(process.versions.node) < 18) throw 'Node ' + process.versions.node + ' is too old: 18 or newer'"
	if out, err := exec.Command("node", "-e", oldest).CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	dir = filepath.Join(scratch, "js")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "js"))); err != nil {
		return "", err
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("npm ci: %w", err), errors.New(string(out)))
	}
	return dir, nil
})

// packages returns the directory of the stories with all that they need.
func (e *env) packages() string {
	e.Helper()
	dir, err := installPackages()
	e.need(javascriptVariable, err)
	return dir
}

// need skips the test if something is missing, or fails it where variable or CI is set.
func (e *env) need(variable string, err error) {
	e.Helper()
	switch {
	case err == nil:
	case os.Getenv(variable) == "" && os.Getenv("CI") == "":
		e.Skipf("set %s to fail instead: %v", variable, err)
	default:
		e.Fatal(err)
	}
}

// node tells a story with Node.js. Variables are NAME=value.
func (e *env) node(story string, variables ...string) {
	e.Helper()
	e.tellWithNode(e.packages(), story, variables)
}

// idleBrowser starts Chromium, once for all tests, and hands its address to one story at a time, which has
// the clipboard to itself.
var idleBrowser = sync.OnceValues(func() (chan string, error) {
	dir, err := installPackages()
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil, err
	}
	address, err := startBrowser(dir, program)
	if err != nil {
		return nil, fmt.Errorf("start Chromium: %w", err)
	}
	idle := make(chan string, 1)
	idle <- address
	return idle, nil
})

// startBrowser starts a Chromium that runs until the last test has ended, and
// returns the address for stories.
func startBrowser(dir, program string) (address string, err error) {
	c := exec.Command("node", "browserserver.mjs")
	c.Dir = dir
	c.Env = append(os.Environ(), "STORY_CHROMIUM="+program)
	c.Stderr = os.Stderr
	input, err := c.StdinPipe() // a killed test process closes it, too
	if err != nil {
		return "", err
	}
	output, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", err
	}
	atEnd(func() error { return errors.Join(input.Close(), c.Wait()) })
	line, err := bufio.NewReader(output).ReadString('\n')
	return strings.TrimSpace(line), err
}

// browser tells a story with Node.js that drives Chromium.
func (e *env) browser(story string, variables ...string) {
	e.Helper()
	dir := e.packages()
	idle, err := idleBrowser()
	e.need(browserVariable, err)
	address := <-idle
	defer func() { idle <- address }()
	e.tellWithNode(dir, story, append(variables, "STORY_BROWSER="+address))
}

func (e *env) tellWithNode(dir, story string, variables []string) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), storyTime)
	defer cancel()
	// The gateway listens on 127.0.0.1, and Node 18 asks ::1 alone where localhost is both.
	c := exec.CommandContext(ctx, "node", "--dns-result-order=ipv4first", story+".mjs")
	c.Dir = dir
	c.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+e.gw.caFile(), "STORY_GATEWAY="+e.gw.host,
		"STORY_CONNECTION="+e.connection())
	if e.websocket {
		c.Env = append(c.Env, "STORY_WEBSOCKET=1")
	}
	c.Env = append(c.Env, variables...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // upon which playwright ends its browser
	c.WaitDelay = 10 * time.Second
	if out, err := c.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "told\n") {
		e.Fatalf("%s: %v\n%s", story, err, out)
	}
}

// page bundles a module for browsers, serves a page that loads it until the
// test ends, and returns its address.
func (e *env) page(module string) string {
	e.Helper()
	c := exec.CommandContext(e.Context(), filepath.Join("node_modules", ".bin", "esbuild"), module, "--bundle", "--format=esm",
		"--inject:shims.mjs", "--define:global=globalThis", "--alias:os=os-browserify", "--alias:path=path-browserify", "--log-level=warning")
	c.Dir = e.packages()
	var faults strings.Builder
	c.Stderr = &faults
	script, err := c.Output()
	if err != nil {
		e.Fatalf("bundle %s: %v\n%s", module, err, &faults)
	}
	answer := func(kind string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(body) // the browser may be gone
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/{$}", answer("text/html; charset=utf-8", []byte(`<!doctype html><link rel="icon" href="data:,"><script type="module" src="script.js"></script>`)))
	mux.Handle("/script.js", answer("text/javascript; charset=utf-8", script))
	server := httptest.NewServer(mux)
	e.Cleanup(server.Close)
	return server.URL + "/"
}

func TestTheJavaScriptSDKIsAtHome(t *testing.T) {
	everywhere(t, func(e *env) { e.node("story", "STORY_QUEUE="+e.name()) })
}

func TestBrowserOfRheaTakesNoMessage(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		e.node("browse", "STORY_QUEUE="+queue, "STORY_POLICY="+devPolicy, "STORY_KEY="+devKey)
		if ready := e.runtime(queue).ActiveMessageCount; ready != 250 {
			e.Errorf("%d messages are left, want 250", ready)
		}
		for _, m := range e.take(e.receiver(queue), 10) {
			if m.DeliveryCount != 1 {
				e.Errorf("%s was delivered %d times, want once", m.Body, m.DeliveryCount)
			}
		}
	})
}

func TestRheaIsAtHomeInAWebSocket(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		e.node("rhea", "STORY_QUEUE="+queue, "STORY_POLICY="+devPolicy, "STORY_KEY="+devKey)
		if left := e.runtime(queue).TotalMessageCount; left != 0 {
			e.Errorf("%d messages are left", left)
		}
	})
}
