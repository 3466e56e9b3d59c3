package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/internal/freeport"
	"github.com/crosstown-mq/crosstown/internal/variants"
)

// screenshotsVariable names a directory that the console's pictures are written to.
const screenshotsVariable = "E2E_SCREENSHOTS"

// consoleSmoke is the story of the console that every run tells. A page costs as much as thirty other
// stories, so the rest is told where stories visit all places.
const consoleSmoke = "TestTheConsoleIsAtHomeInABrowser"

// needsAllPages skips a story of the console where only the smoke is told.
func needsAllPages(t *testing.T) {
	t.Helper()
	if t.Name() != consoleSmoke && !variants.All() {
		t.Skip("run by make verify, or with E2E_ALL=1")
	}
}

// consoleOf opens a gateway for a story of the console, which shows all that there
// is, and so needs one of its own.
func consoleOf(t *testing.T, config string) *env {
	t.Helper()
	needsAllPages(t)
	if config == "" {
		return &env{T: t, gw: own(t, "memory"), plain: true}
	}
	file := filepath.Join(t.TempDir(), "crosstown.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return &env{T: t, gw: own(t, "memory", "--config", file), plain: true}
}

// console tells a story of the console.
func (e *env) console(story string, variables ...string) {
	e.Helper()
	if dir := os.Getenv(screenshotsVariable); dir != "" {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			e.Fatal(err)
		}
		variables = append(variables, "STORY_SCREENSHOTS="+absolute)
	}
	e.browser(story, append(variables, "STORY_LISTENER="+e.gw.connection(listenOnly, listenKey, e.plain))...)
}

func TestTheConsoleIsAtHomeInABrowser(t *testing.T) {
	t.Parallel()
	consoleOf(t, "").console("console")
}

func TestTheConsoleTellsWhatHappenedToMessages(t *testing.T) {
	t.Parallel()
	consoleOf(t, `
queues: [{name: orders}, {name: quiet}, {name: inbox, forward-to: orders}]
topics: [{name: events, subscriptions: [{name: eu, rules: [{name: large, sql: amount > 100}]}]}]
explain: [{entity: orders}, {entity: inbox}, {entity: events, keep: 1h}]
`).console("explainpage")
}

// rented is a namespace besides the gateway's own, with a policy of all rights.
const (
	rentedPolicy = "tenant"
	rentedKey    = "tenant-key"
	rented       = `
namespaces:
  - name: rented
    policies: [{name: ` + rentedPolicy + `, key: ` + rentedKey + `, rights: Manage}]
    queues: [{name: inbox}, {name: news}]
`
)

func TestTheConsoleManagesNamespaces(t *testing.T) {
	t.Parallel()
	consoleOf(t, rented).console("namespacespage")
}

func TestTheConsoleEntersNamespaces(t *testing.T) {
	t.Parallel()
	e := consoleOf(t, rented)
	e.console("enterpage", "STORY_TENANT="+e.gw.connection(rentedPolicy, rentedKey, e.plain))
}

// The remote is a namespace of the gateway, reached by a proxy that the story
// starts and ends.
func TestTheConsoleTellsOfRemotes(t *testing.T) {
	t.Parallel()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	e := consoleOf(t, rented+fmt.Sprintf(`    topics: [{name: deals, subscriptions: [{name: all, forward-to: "office:desk"}]}]
    remotes: [{name: office, namespace: sbemulatorns}]
queues: [{name: outbox, forward-to: "hq:inbox"}, {name: desk}]
remotes:
  - name: hq
    connection-string: Endpoint=sb://localhost:%d;SharedAccessKeyName=%s;SharedAccessKey=%s;UseDevelopmentEmulator=true
    pull: [{from: news, into: desk}]
`, port, rentedPolicy, rentedKey))
	e.console("remotespage", fmt.Sprintf("STORY_PORT=%d", port), "STORY_TENANT="+e.gw.connection(rentedPolicy, rentedKey, e.plain))
}

func TestTheConsoleShowsWebhooks(t *testing.T) {
	t.Parallel()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	secrets := filepath.Join(t.TempDir(), "secret")
	for name, secret := range map[string]string{"-in": "secret-of-the-shop-in-the-address", "-out": "whsec_b2YtdGhlLXNob3Atb2YtdGhlLXNob3A="} {
		if err := os.WriteFile(secrets+name, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := consoleOf(t, rented+fmt.Sprintf(`    hooks: [{name: till, entity: inbox, verify: url, secret-file: %[1]s-in}]
queues: [{name: events}, {name: orders}]
hooks: [{name: shop, entity: events, verify: url, secret-file: %[1]s-in, headers: [X-Event]}]
pushes: [{name: partner, from: orders, url: "http://127.0.0.1:%[2]d/in", secret-file: %[1]s-out}]
`, secrets, port))
	e.console("webhookspage", "STORY_TENANT="+e.gw.connection(rentedPolicy, rentedKey, e.plain))
}

func TestTheConsoleListsSchedules(t *testing.T) {
	t.Parallel()
	consoleOf(t, `
queues: [{name: orders}]
schedules: [{name: reports, cron: "0 6 * * MON-FRI", zone: Europe/Berlin, entity: orders}, {name: lost, cron: "* * * * *", entity: nosuch}]
`).console("schedulespage")
}

func TestTheConsoleListsMessagesByState(t *testing.T) {
	t.Parallel()
	consoleOf(t, `
queues: [{name: orders}, {name: outbox, forward-to: archive}, {name: archive}]
`).console("statespage")
}

func TestTheConsoleMovesTimeAndMakesFaults(t *testing.T) {
	t.Parallel()
	consoleOf(t, "").console("testingpage")
}

func TestTheConsoleTellsWhatNeedsAttention(t *testing.T) {
	t.Parallel()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	consoleOf(t, fmt.Sprintf(`
queues: [{name: small, max-size-in-megabytes: 1}, {name: off}, {name: outbox, forward-to: archive}, {name: archive}, {name: desk, forward-to: "hq:inbox"}, {name: guarded}]
circuit-breakers: [{entity: guarded, pause: 1h}]
topics: [{name: events, subscriptions: [{name: eu}, {name: all}]}]
remotes: [{name: hq, connection-string: "Endpoint=sb://localhost:%d;SharedAccessKeyName=a;SharedAccessKey=a;UseDevelopmentEmulator=true"}]
plugins: [{name: gone, path: /no/such/program}]
`, port)).console("overviewpage")
}

func TestTheConsoleHandlesManyMessages(t *testing.T) {
	t.Parallel()
	consoleOf(t, `
queues: [{name: orders}, {name: failed}, {name: wide, enable-partitioning: true}]
`).console("listpage")
}

func TestTheConsoleTellsOfAThousandEntities(t *testing.T) {
	t.Parallel()
	config := strings.Builder{}
	config.WriteString("topics: [{name: news, subscriptions: [{name: a}, {name: b}]}]\nqueues:\n")
	for i := range 997 {
		fmt.Fprintf(&config, "- name: queue-%04d\n", i+1)
	}
	consoleOf(t, config.String()).console("entitiespage")
}

func TestTheConsoleFindsEntities(t *testing.T) {
	t.Parallel()
	consoleOf(t, "").console("searchpage")
}

func TestTheConsoleSignsInOnPhonesAndRemembers(t *testing.T) {
	t.Parallel()
	consoleOf(t, "").console("signinpage")
}

func TestTheConsoleIsForOperators(t *testing.T) {
	t.Parallel()
	consoleOf(t, `
queues: [{name: orders}]
`).console("operatepage")
}

func TestTheConsoleActsOnChosenMessagesOfSessions(t *testing.T) {
	t.Parallel()
	consoleOf(t, `
queues: [{name: orders, requires-session: true}]
`).console("chosenpage")
}
