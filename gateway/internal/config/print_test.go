package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

func printed(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.Bind(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	text, err := config.Print(flags, append(environ, "HOME="+t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEachSettingIsPrintedWithItsSourceAndWithoutSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, key := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "key")
	text := `store: memory
log: {format: json}
tls: {key: /etc/tls.key, cert: /etc/tls.pem}
pushes:
  - {name: fn, from: orders, url: "https://a.example/in?code=topsecret9&x=topsecret10", secret-env: PUSH}
  - {name: token, from: orders, url: "https://topsecret11@a.example/in", secret-env: PUSH}
amqp: {max-links: 7}
policies:
  - {name: app, key: topsecret1, secondary-key: topsecret2, rights: Send}
  - {name: read, key-file: ` + key + `, rights: Listen}
queues:
  - name: orders
    lock-duration: 30s
    policies: [{name: till, key: topsecret3, rights: Send}]
remotes:
  - {name: hq, connection-string: "Endpoint=sb://h;SharedAccessKeyName=a;SharedAccessKey=topsecret4"}
  - {name: rabbit, url: "amqps://r:5671", username: u, password: topsecret5}
`
	for path, content := range map[string]string{file: text, key: "topsecret6\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := printed(t, []string{"CROSSTOWN_LOG_LEVEL=warn", "PUSH=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, "--config", file, "--store", "redis://u:topsecret7@h:1", "--policy", "app=topsecret8:Listen")
	for _, want := range []string{
		"store: redis://u:xxxxx@h:1 # --store\n", "level: warn # CROSSTOWN_LOG_LEVEL\n", "format: json # " + file + ":2\n", "max-links: 7 # " + file + ":7\n",
		"max-sessions: 8192 # default\n", "drain-timeout: 20s # default\n", "lock-duration: 30s # " + file + ":13\n", "key: '***' # " + file + ":14\n",
		"SharedAccessKey=*** # " + file, "password: '***' # ", "key-file: " + key, "name: app # --policy\n", "key: SAS_KEY_VALUE # default\n", "forward-wait: false # default\n",
		"key: /etc/tls.key # ", "url: https://a.example/in?code=***&x=*** # ", "url: https://***@a.example/in # ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "topsecret") || strings.Count(got, "name: app") != 1 || strings.Contains(got, "url: \"\"") {
		t.Errorf("got\n%s", got)
	}
}

// What is printed without any setting are the defaults of the sample, and what is printed of the sample is
// the sample: so both name the same values.
func TestThePrintedDefaultsAreThoseOfTheSample(t *testing.T) {
	t.Parallel()
	defaults, sample := map[string]string{}, map[string]string{}
	for into, text := range map[*map[string]string]string{&defaults: printed(t, nil), &sample: printed(t, nil, "--config", "../../../configs/crosstown.yaml")} {
		section := ""
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(strings.TrimRight(line, "\n"), " # ")
			name, value, _ := strings.Cut(line, ":")
			switch {
			case strings.HasPrefix(name, "  - "), strings.HasPrefix(name, "    "):
			case strings.HasPrefix(name, "  "):
				(*into)[section+"."+strings.TrimSpace(name)] = value
			default:
				section = name
				(*into)[name] = value
			}
		}
	}
	for name, value := range defaults {
		section, _, _ := strings.Cut(name, ".")
		if section != "amqp" && section != "websocket" && section != "metrics" {
			continue
		}
		if value != sample[name] {
			t.Errorf("%s: the default is printed as%s, the sample has%s", name, value, sample[name])
		}
	}
	if len(defaults) < 30 {
		t.Errorf("only %d settings are printed", len(defaults))
	}
}

// An empty list of rules says in a file that no message fits, and so it does in print.
func TestWhatIsGivenAndEmptyIsPrinted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := `store: memory
topics:
  - name: events
    subscriptions:
      - {name: none, rules: []}
      - {name: all}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := printed(t, nil, "--config", file); strings.Count(got, "rules: []\n") != 1 {
		t.Errorf("got\n%s", got)
	}
}
