package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// sourceFiles are files of each form with n queues, a tenth of which have policies.
func sourceFiles(b *testing.B, n int) map[string]string {
	b.Helper()
	var file strings.Builder
	file.WriteString("queues:\n")
	var queues []any
	resources := []any{map[string]any{"type": "Microsoft.ServiceBus/namespaces", "name": "ns"}}
	for i := range n {
		name := fmt.Sprint("queue-", i)
		fmt.Fprintf(&file, "  - {name: %s, lock-duration: 1m", name)
		if i%10 == 0 {
			file.WriteString(", policies: [{name: app, rights: Send}]")
		}
		file.WriteString("}\n")
		queues = append(queues, map[string]any{"Name": name, "Properties": map[string]any{"LockDuration": "PT1M"}})
		resources = append(resources, map[string]any{
			"type": "Microsoft.ServiceBus/namespaces/queues", "name": "ns/" + name, "properties": map[string]any{"lockDuration": "PT1M"},
			"dependsOn": []any{"[resourceId('Microsoft.ServiceBus/namespaces', 'ns')]"},
		})
		if i%10 == 0 {
			resources = append(resources, map[string]any{
				"type": "Microsoft.ServiceBus/namespaces/queues/authorizationRules", "name": "ns/" + name + "/app", "properties": map[string]any{"rights": []any{"Send"}},
			})
		}
	}
	emulator, err := json.Marshal(map[string]any{"UserConfig": map[string]any{"Namespaces": []any{map[string]any{"Name": "sbemulatorns", "Queues": queues}}}})
	if err != nil {
		b.Fatal(err)
	}
	template, err := json.Marshal(map[string]any{"resources": resources})
	if err != nil {
		b.Fatal(err)
	}
	dir, paths := b.TempDir(), map[string]string{}
	for name, data := range map[string]string{"config.yaml": file.String(), "emulator.json": string(emulator), "template.json": string(template)} {
		paths[name] = filepath.Join(dir, name)
		if err := os.WriteFile(paths[name], []byte(data), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return paths
}

// The time per queue must not grow with their number.
func BenchmarkReadSource(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		for form, path := range sourceFiles(b, n) {
			b.Run(fmt.Sprintf("%s/queues=%d", form, n), func(b *testing.B) {
				for b.Loop() {
					source, err := config.ReadSource(path, config.SourceOptions{})
					if err != nil || len(source.Queues) != n {
						b.Fatal(len(source.Queues), err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/queue")
			})
		}
	}
}
