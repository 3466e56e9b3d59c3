package main

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/crosstown-mq/crosstown"

// arrows says what each package may import besides the standard library:
// packages of this module by their path in it, others by module. The first
// pattern that matches a package counts; a pattern that ends in /... includes
// what lies below. A new arrow belongs here only after the question whether a
// fourth protocol could still arrive without touching core, and Redis leave
// without touching a bridge.
var arrows = []struct {
	pattern string
	may     []string
}{
	{"core/value", nil},
	{"core", []string{"core/value"}},
	{"internal/eventually", nil},
	{"internal/freeport", nil},
	{"internal/built", nil},
	{"internal/variants", []string{"core/store/redis/redistest"}},
	{"internal/codec", []string{"core/value", "github.com/x448/float16"}},
	{"internal/durable", nil},
	{"internal/spelling", nil},
	{"internal/wake", nil},
	{"internal/turn", nil},
	{"internal/redisserver", []string{"github.com/redis/go-redis/v9/..."}},
	{"core/store/redis/redistest", []string{"internal/freeport", "internal/redisserver", "github.com/redis/go-redis/v9/..."}},
	{"core/store/redis/...", []string{"core", "core/value", "core/store/redis/...", "github.com/redis/go-redis/v9/...", "github.com/hashicorp/golang-lru/v2/...", "github.com/vmihailenco/msgpack/v5", "golang.org/x/sync/...", "internal/wake"}},
	{"core/store/internal/state", []string{"core", "core/value", "internal/turn", "internal/wake", "github.com/tidwall/btree"}},
	{"core/store/memory", []string{"core/store/internal/state"}},
	{"core/store/file/...", []string{"core", "core/value", "core/store/internal/state", "core/store/file/...", "internal/durable", "github.com/hashicorp/golang-lru/v2/...", "golang.org/x/sys/unix", "internal/wake"}},
	{"core/storetest", []string{"core", "core/value", "internal/eventually"}},
	{"core/storetest/linear", []string{"core", "internal/eventually", "github.com/anishathalye/porcupine"}},
	{"core/rules", []string{"core", "core/value"}},
	{"core/broker/internal/entity", []string{"core", "core/value"}},
	{"core/broker/internal/pause", []string{"internal/wake"}},
	{"core/broker/internal/audit", []string{"core", "core/broker/internal/entity", "internal/wake"}},
	{"core/broker/internal/pipeline", []string{"core", "core/broker/internal/entity"}},
	{"core/broker/internal/topics", []string{"core", "core/fair", "core/rules", "core/broker/internal/entity", "core/broker/internal/audit", "core/broker/internal/pipeline"}},
	{"core/broker/internal/delivery", []string{"core", "core/broker/internal/entity", "core/broker/internal/audit", "core/broker/internal/pause", "internal/wake"}},
	{"core/broker/internal/forward", []string{"core", "core/broker/internal/entity", "core/broker/internal/audit", "core/broker/internal/pipeline", "core/broker/internal/pause", "internal/wake"}},
	{"core/cron", []string{"core", "github.com/netresearch/go-cron"}},
	{"core/broker", []string{"core", "core/fair", "core/value", "core/cron", "core/rules", "core/broker/internal/...", "golang.org/x/sync/singleflight", "internal/wake"}},
	{"core/namespaces", []string{"core", "core/auth", "core/intercept", "golang.org/x/sync/singleflight", "internal/wake"}},
	{"core/intercept", []string{"core"}},
	{"core/faults", []string{"core", "core/intercept", "internal/wake"}},
	{"core/payload", []string{"core", "core/intercept", "golang.org/x/sync/semaphore", "internal/wake"}},
	{"core/fair", []string{"core", "core/intercept", "internal/wake"}},
	{"core/taps", []string{"core", "core/fair", "core/intercept", "internal/wake"}},
	{"core/...", []string{"core", "core/value"}},
	{"bridges", []string{"core", "core/fair"}},
	{"bridges/refusals", []string{"core", "core/value", "golang.org/x/time/rate"}},
	{"bridges/clients", []string{"core", "bridges"}},
	{"bridges/origins", nil},
	{"bridges/internal/frame", []string{"core", "core/value", "internal/codec"}},
	{"bridges/typedjson", []string{"core", "internal/codec", "bridges/internal/frame"}},
	{"bridges/internal/link", []string{"core", "core/fair", "bridges", "bridges/clients", "bridges/refusals", "golang.org/x/sys/unix"}},
	{"bridges/amqp/internal/...", []string{"core", "core/value", "bridges/amqp/internal/...", "core/fair"}},
	{"bridges/amqp", []string{"core", "core/value", "internal/spelling", "bridges", "bridges/clients", "core/fair", "internal/turn", "bridges/refusals", "bridges/internal/link", "bridges/amqp/internal/...", "golang.org/x/sys/unix", "internal/wake"}},
	{"bridges/https", []string{"core", "core/value", "internal/codec", "internal/spelling", "bridges", "bridges/clients", "core/fair", "internal/turn", "bridges/origins", "bridges/refusals", "bridges/internal/frame", "bridges/internal/link", "internal/wake"}},
	{"bridges/webhooks", []string{"core", "core/value", "bridges", "core/fair", "bridges/refusals", "internal/wake", "github.com/hashicorp/golang-lru/v2/...", "golang.org/x/sync/semaphore"}},
	{"bridges/remote", []string{"core", "core/auth", "core/fair", "core/value", "bridges/amqp", "github.com/Azure/go-amqp", "golang.org/x/sync/semaphore", "internal/wake"}},
	{"bridges/websocket/...", []string{"core", "core/value", "internal/codec", "bridges", "core/fair", "internal/turn", "bridges/clients", "bridges/origins", "bridges/refusals", "bridges/internal/frame", "bridges/internal/link", "bridges/websocket/...", "github.com/gorilla/websocket"}},
	{"plugins/builtin", []string{"core", "core/value", "internal/codec"}},
	{"plugins", nil},
	{"plugins/proto/...", []string{"google.golang.org/grpc/...", "google.golang.org/protobuf/..."}},
	{"plugins/internal/...", []string{"core/value", "plugins/proto/..."}},
	{"plugins/sdk", []string{"core/value", "plugins", "plugins/internal/...", "plugins/proto/...", "github.com/hashicorp/...", "google.golang.org/grpc/...", "golang.org/x/sync/errgroup"}},
	{"plugins/host", []string{"core", "core/value", "plugins", "plugins/internal/...", "plugins/proto/...", "github.com/hashicorp/...", "google.golang.org/grpc/...", "google.golang.org/protobuf/...", "internal/wake", "golang.org/x/time/rate"}},
	{"plugins/plugintest", []string{"core", "core/value", "plugins", "plugins/host", "plugins/proto/...", "plugins/sdk", "google.golang.org/grpc/..."}},
	{"gateway/internal/backup", []string{"core", "core/store/file", "core/namespaces", "gateway/internal/record"}},
	{"gateway/cli/command", []string{"core", "internal/durable", "core/auth", "bridges/https", "bridges/remote", "gateway/internal/config", "gateway/internal/devca", "gateway/internal/listen", "github.com/Azure/go-amqp", "github.com/spf13/...", "go.yaml.in/yaml/v3"}},
	{"gateway/cli/deposit", []string{"core", "bridges/remote", "gateway/internal/admin/api", "gateway/cli/command", "gateway/internal/record"}},
	{"gateway/cli/messages", []string{"core", "core/payload", "core/rules", "core/value", "internal/wake", "bridges/amqp", "bridges/remote", "bridges/typedjson", "gateway/internal/admin/api", "gateway/cli/command", "gateway/cli/deposit", "gateway/internal/config", "gateway/internal/record", "gateway/internal/schema", "plugins/builtin", "github.com/Azure/go-amqp", "github.com/spf13/..."}},
	{"gateway/cli/entities", []string{"core", "core/rules", "core/value", "internal/spelling", "bridges/https", "bridges/typedjson", "gateway/internal/admin/api", "gateway/cli/command", "gateway/cli/messages", "gateway/internal/config", "gateway/internal/record", "github.com/spf13/..."}},
	{"gateway/cli/operate", []string{"core/store/file", "internal/wake", "gateway/internal/admin/api", "gateway/cli/command", "gateway/internal/config", "gateway/internal/project", "plugins/host", "plugins/proto/v1", "github.com/spf13/..."}},
	{"gateway/cli/move", []string{"core", "internal/durable", "internal/wake", "bridges/amqp", "bridges/https", "bridges/remote", "gateway/internal/admin/api", "gateway/cli/command", "gateway/cli/deposit", "gateway/internal/config", "gateway/internal/declaration", "gateway/internal/listen", "github.com/spf13/..."}},
	{"gateway/cli/test", []string{"core", "core/faults", "gateway/internal/admin/api", "gateway/internal/bench", "gateway/cli/command", "github.com/spf13/..."}},
	{"gateway/cli/setup", []string{"core", "core/auth", "core/broker", "core/store/memory", "gateway/internal/admin/api", "gateway/cli/command", "gateway/internal/config", "gateway/internal/declaration", "gateway/internal/devca", "gateway/internal/listen", "github.com/spf13/..."}},
	{"gateway/cli", []string{"core", "core/faults", "gateway/internal/admin/api", "gateway/cli/...", "gateway/internal/config", "plugins/host", "github.com/spf13/..."}},
	{"gateway/...", []string{"core/...", "bridges/...", "gateway/...", "..."}},
	{"examples/plugins/avro", []string{"plugins/sdk", "plugins/plugintest", "github.com/hamba/avro/v2"}},
	{"examples/plugins/protobuf", []string{"plugins/sdk", "plugins/plugintest", "google.golang.org/protobuf/..."}},
	{"examples/plugins/...", []string{"plugins/sdk", "plugins/plugintest"}},
	{"examples/testing", []string{"github.com/Azure/...", "core", "gateway/crosstowntest"}},
	{"examples/...", []string{"github.com/Azure/...", "examples/internal/...", "internal/built"}},
	{"internal/e2e/...", []string{"..."}},
}

func TestImportsFollowTheArrows(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"/...")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		pkg := inModule(words[0])
		may, ok := allowed(pkg)
		if !ok {
			t.Errorf("%s: arrows does not know this package: add it", pkg)
			continue
		}
		seen++
		for _, imported := range words[1:] {
			if !isStandard(imported) && !slices.ContainsFunc(may, func(p string) bool { return matches(p, inModule(imported)) }) {
				t.Errorf("%s imports %s, which it may not", pkg, inModule(imported))
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d packages were looked at", seen)
	}
}

func allowed(pkg string) ([]string, bool) {
	for _, a := range arrows {
		if matches(a.pattern, pkg) {
			return a.may, true
		}
	}
	return nil, false
}

// matches reports whether a package is what pattern names or, of a pattern
// that ends in "...", below it.
func matches(pattern, pkg string) bool {
	base, below := strings.CutSuffix(pattern, "...")
	if !below {
		return pkg == pattern
	}
	return strings.HasPrefix(pkg, base) || pkg == path.Clean(base)
}

func inModule(pkg string) string { return strings.TrimPrefix(pkg, module+"/") }

// isStandard reports whether a path is the standard library's: its first
// element has no dot.
func isStandard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".") && !slices.Contains([]string{"core", "bridges", "gateway", "examples", "internal", "plugins"}, first)
}

func TestArrowsThatMustNotExist(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to string }{
		{"core", "bridges"},
		{"core", "core/broker"},
		{"core/value", "core"},
		{"core/store/internal/state", "core/store/redis"},
		{"core/broker", "core/store/redis"},
		{"core/broker", "core/intercept"},
		{"core/intercept", "core/broker"},
		{"core/broker", "bridges/amqp"},
		{"core/auth", "github.com/go-jose/go-jose/v4"},
		{"core/rules", "core/broker"},
		{"bridges/amqp", "core/rules"},
		{"bridges/amqp", "core/broker"},
		{"bridges/amqp", "bridges/https"},
		{"bridges/https", "bridges/amqp/internal/wire"},
		{"bridges/websocket", "bridges/amqp"},
		{"bridges/https", "github.com/redis/go-redis/v9"},
		{"core", "github.com/vmihailenco/msgpack/v5"},
		{"core/broker", "plugins/host"},
		{"plugins/sdk", "core"},
		{"plugins/host", "core/broker"},
		{"gateway/cli/command", "gateway/cli/messages"},
		{"gateway/cli/deposit", "gateway/cli/messages"},
		{"gateway/cli/messages", "gateway/cli/entities"},
		{"gateway/cli/messages", "gateway/cli/move"},
		{"gateway/cli/move", "gateway/cli/messages"},
	} {
		if may, _ := allowed(c.from); slices.ContainsFunc(may, func(p string) bool { return matches(p, c.to) }) {
			t.Errorf("%s may import %s", c.from, c.to)
		}
	}
}
