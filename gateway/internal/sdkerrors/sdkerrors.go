// Package sdkerrors supports the tests of docs/sdk-errors.md: it prepares situations that provoke
// each error, and compares what an SDK shows with the page.
package sdkerrors

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core/auth"
)

var update = flag.Bool("update", false, "write the tables of docs/sdk-errors.md anew")

var cases = []string{
	"wrong key", "expired token", "missing entity", "missing claim",
	"no network", "lost lock", "message too large", "disabled entity",
}

// documented is the error that each SDK's documentation names, in the order of cases.
var documented = map[string][]string{
	"Go": {
		"`CodeUnauthorizedAccess`", "`CodeUnauthorizedAccess`", "`CodeNotFound`", "`CodeUnauthorizedAccess`",
		"`CodeConnectionLost`", "`CodeLockLost`", "an error without a code of its own", "an error without a code of its own",
	},
	"Java": {
		"`UNAUTHORIZED`", "`UNAUTHORIZED`", "`MESSAGING_ENTITY_NOT_FOUND`", "`UNAUTHORIZED`",
		"`SERVICE_COMMUNICATION_ERROR`", "`MESSAGE_LOCK_LOST`", "`MESSAGE_SIZE_EXCEEDED`", "`MESSAGING_ENTITY_DISABLED`",
	},
	"JavaScript": {
		"`UnauthorizedAccess`", "`UnauthorizedAccess`", "`MessagingEntityNotFound`", "`UnauthorizedAccess`",
		"`ServiceCommunicationProblem`", "`MessageLockLost`", "`MessageSizeExceeded`", "`MessagingEntityDisabled`",
	},
	"Python": {
		"`ServiceBusAuthenticationError`", "`ServiceBusAuthenticationError`", "`MessagingEntityNotFoundError`", "`ServiceBusAuthorizationError`",
		"`ServiceBusConnectionError`", "`MessageLockLostError`", "`MessageSizeExceededError`", "`MessagingEntityDisabledError`",
	},
}

type Shown struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

const (
	rootPolicy, rootKey     = "RootManageSharedAccessKey", "SAS_KEY_VALUE"
	listenPolicy, listenKey = "listen-only", "key of listen-only"
)

// WrongKey, Expired, ListenOnly and Unreachable are connection strings with which requests fail.
type Scene struct {
	Host, Queue, Disabled                      string
	WrongKey, Expired, ListenOnly, Unreachable string
	Token                                      string // for HTTP
}

func NewScene(t *testing.T, manager *admin.Client, host, queue, disabled string) Scene {
	t.Helper()
	create := func(name string, properties *admin.QueueProperties) {
		t.Helper()
		if _, err := manager.CreateQueue(t.Context(), name, &admin.CreateQueueOptions{Properties: properties}); err != nil {
			t.Fatalf("create queue %s: %v", name, err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if _, err := manager.DeleteQueue(ctx, name, nil); err != nil {
				t.Errorf("cannot delete queue %s: %v", name, err)
			}
		})
	}
	create(queue, &admin.QueueProperties{AuthorizationRules: []admin.AuthorizationRule{{
		KeyName: new(listenPolicy), PrimaryKey: new(listenKey), SecondaryKey: new("other " + listenKey), AccessRights: []admin.AccessRight{admin.AccessRightListen},
	}}})
	create(disabled, &admin.QueueProperties{Status: to.Ptr(admin.EntityStatusDisabled)})
	connection := func(host, policy, key string) string {
		return "Endpoint=sb://" + host + ";SharedAccessKeyName=" + policy + ";SharedAccessKey=" + key + ";UseDevelopmentEmulator=true"
	}
	return Scene{
		Host: host, Queue: queue, Disabled: disabled,
		WrongKey:    connection(host, rootPolicy, "wrong"),
		ListenOnly:  connection(host, listenPolicy, listenKey),
		Unreachable: connection("localhost:1", rootPolicy, rootKey), // tcpmux, which machines no longer serve
		Expired: "Endpoint=sb://" + host + ";SharedAccessSignature=" +
			auth.SignSAS("sb://"+host+"/"+queue, rootPolicy, rootKey, time.Now().Add(-time.Hour)) + ";UseDevelopmentEmulator=true",
		Token: auth.SignSAS("http://"+host+"/", rootPolicy, rootKey, time.Now().Add(time.Hour)),
	}
}

// Variables returns the environment of a program, which writes to report.
func (s Scene) Variables(report string) []string {
	return []string{
		"STORY_QUEUE=" + s.Queue, "STORY_DISABLED=" + s.Disabled, "STORY_WRONG_KEY=" + s.WrongKey, "STORY_EXPIRED=" + s.Expired,
		"STORY_LISTEN_ONLY=" + s.ListenOnly, "STORY_NOBODY=" + s.Unreachable, "STORY_TOKEN=" + s.Token,
		"STORY_MESSAGES=http://" + s.Host + "/" + s.Queue + "/messages", "STORY_REPORT=" + report,
	}
}

func Read(t *testing.T, file string) map[string]Shown {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report map[string]Shown
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	return report
}

// unstable parts of a text differ between runs.
var unstable = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?:localhost|127\.0\.0\.1|\[?::1\]?):\d+`), "HOST"},
	{regexp.MustCompile(`REFERENCE_ID: [^,]+, LINK_CREDIT: \d+`), "REFERENCE_ID: ID, LINK_CREDIT: N"},
	{regexp.MustCompile(`\bq-\d+\b`), "QUEUE"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z?|\d\d?/\d\d?/\d{4} [\d:]+(?: [AP]M)?`), "TIME"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:_G\d+)?`), "ID"},
	{regexp.MustCompile(`connection-?\d+`), "CONNECTION"},
	{regexp.MustCompile(`\s*\n\s*|\s*\r\s*`), " "},
	{regexp.MustCompile(`\|`), `\|`},
}

func table(sdk string, report map[string]Shown) string {
	var b strings.Builder
	b.WriteString("| case | the program sees | text | documented |\n|---|---|---|---|\n")
	for i, name := range cases {
		text := report[name].Text
		for _, u := range unstable {
			text = u.what.ReplaceAllString(text, u.by)
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", name, report[name].Type, strings.TrimSpace(text), documented[sdk][i])
	}
	return b.String()
}

func Page(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		page := filepath.Join(dir, "docs", name)
		if _, err := os.Stat(page); err == nil {
			return page
		}
		above := filepath.Dir(dir)
		if above == dir {
			t.Fatalf("no folder above that of the test has docs/%s", name)
		}
		dir = above
	}
}

var turn sync.Mutex // for the page

// Want compares what an SDK shows with its section of the page, or updates the section.
func Want(t *testing.T, sdk string, report map[string]Shown) {
	t.Helper()
	turn.Lock()
	defer turn.Unlock()
	for _, name := range cases {
		if report[name].Type == "" {
			t.Errorf("%s: the program reported no error in the case %s", sdk, name)
		}
	}
	page := Page(t, "sdk-errors.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?s)\n## ` + regexp.QuoteMeta(sdk) + `\n.*?\n(\|.*?\|\n)(?:\n|$)`)
	found := section.FindSubmatchIndex(text)
	if found == nil {
		t.Fatalf("%s has no section %q with a table", page, sdk)
	}
	want, got := string(text[found[2]:found[3]]), table(sdk, report)
	if got == want {
		return
	}
	if !*update {
		t.Fatalf("%s, section %s: run this test with -update\ngot\n%s\nwant\n%s", page, sdk, got, want)
	}
	if err := os.WriteFile(page, slices.Concat(text[:found[2]], []byte(got), text[found[3]:]), 0o644); err != nil {
		t.Fatal(err)
	}
}
