package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// The variables that tell the helper where and how to make queues.
const (
	manageVariable = "SCORECARD_MANAGE"
	tokenVariable  = "SCORECARD_TOKEN"
)

// attachCall matches a call that attaches a link, up to the node's address.
var attachCall = regexp.MustCompile(`(session\.New(?:Sender|Receiver)\((?:ctx|context\.Background\(\)), )([A-Za-z]+|"[^"]*"|fmt\.Sprintf\([^()]*(?:\(\))?[^()]*\)), `)

// makeNodes adapts the tests of go-amqp to a broker in which nodes must be created, with fewer
// characters in names: before the tests attach a link to a node, it is created. It changes nothing
// else.
func makeNodes(dir string) error {
	path := filepath.Join(dir, "integration_test.go")
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !attachCall.Match(source) {
		return fmt.Errorf("%s attaches no link that we recognise", path)
	}
	if err := os.WriteFile(path, attachCall.ReplaceAll(source, []byte("${1}queueOf(${2}), ")), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "queue_of_test.go"), []byte(queueOf), 0o644)
}

const queueOf = `package amqp_test

import (
	"net/http"
	"os"
	"strings"
)

const description = ` + "`" + `<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>` + "`" + `

// queueOf creates the queue for a node, if there is none, and returns its name.
func queueOf(node string) string {
	name := strings.Map(func(c rune) rune {
		if strings.ContainsRune(" ,", c) {
			return '-'
		}
		return c
	}, node)
	req, err := http.NewRequest(http.MethodPut, os.Getenv("` + manageVariable + `")+name+"?api-version=2021-05", strings.NewReader(description))
	if err != nil {
		return name
	}
	req.Header.Set("Authorization", os.Getenv("` + tokenVariable + `"))
	req.Close = true // the tests look for goroutines left behind
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
	}
	return name
}
`
