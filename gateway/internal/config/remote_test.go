package config_test

import (
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

type endpoint struct {
	Address, Host               string
	Plain                       bool
	User, Password, Policy, Key string
}

func TestRemotesAreReached(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		remote  config.Remote
		want    endpoint
		batches bool
	}{
		"a Service Bus": {
			config.Remote{ConnectionString: "Endpoint=sb://hq.servicebus.windows.net/;SharedAccessKeyName=p;SharedAccessKey=k"},
			endpoint{Address: "hq.servicebus.windows.net:5671", Host: "hq.servicebus.windows.net", Policy: "p", Key: "k"},
			true,
		},
		"an emulator": {
			config.Remote{ConnectionString: "Endpoint=sb://localhost:7000;SharedAccessKeyName=p;SharedAccessKey=k;UseDevelopmentEmulator=true;"},
			endpoint{Address: "localhost:7000", Host: "localhost", Plain: true, Policy: "p", Key: "k"},
			true,
		},
		"a broker": {
			config.Remote{URL: "amqp://rabbit", Username: "u", Password: "w"},
			endpoint{Address: "rabbit:5672", Host: "rabbit", Plain: true, User: "u", Password: "w"},
			false,
		},
		"by another name": {
			config.Remote{URL: "amqps://[::1]:9", ServerName: "hq", Policy: "p", Key: "k"},
			endpoint{Address: "[::1]:9", Host: "hq", Policy: "p", Key: "k"},
			true,
		},
		"a namespace": {config.Remote{Namespace: "billing"}, endpoint{Host: "billing.localhost"}, true},
	} {
		o, plain, err := c.remote.Options()
		got := endpoint{o.Address, o.Host, plain, o.User, o.Password, o.Policy, o.Key}
		if err != nil || got != c.want || o.Batches != c.batches {
			t.Errorf("%s: got %+v, %v, batches %v, want %+v", name, got, err, o.Batches, c.want)
		}
	}
}

func TestRemotesAreChecked(t *testing.T) {
	t.Parallel()
	const file = `remotes:
  - name: "a:b"
    url: amqp://user:secret@host
  - {name: hq}
  - {name: HQ, url: "amqp://h", username: u, policy: p, window: 0, ca: /nowhere/ca.pem}
  - {name: x, namespace: made-at-run-time, pull: [{from: "", into: "a b"}]}
  - {name: y, connection-string: "nonsense;secret"}
  - {name: z, namespace: SbEmulatorNs}
namespaces:
  - name: billing
    policies: [{name: p, key: k, rights: Manage}]
    remotes:
      - {name: hq, namespace: sbemulatorns}
      - {name: Hq, namespace: billing}
      - {name: w, namespace: "a b", window: 99999}
`
	_, err := load(t, map[string]string{"c.yaml": file}, nil, "--config=$DIR/c.yaml")
	if err == nil {
		t.Fatal("it was accepted")
	}
	for _, want := range []string{
		`remotes[0].name: "a:b" is not a valid name for a remote`, `remotes[0].url: the value is not an address`,
		`remotes[1]: the remote has 0 addresses`,
		`remotes[2].name: remote "HQ" is listed twice`, `remotes[2]: username and password must be set together`, `remotes[2].window: 0 is out of range`, `remotes[2].ca: open /nowhere/ca.pem`,
		`remotes[3].pull[0].from: the source is missing`, `remotes[3].pull[0].into: `,
		`remotes[4].connection-string: `, `remotes[5].namespace: "SbEmulatorNs" is this namespace`,
		`namespaces[0].remotes[1].name: remote "Hq" is listed twice`, `namespaces[0].remotes[1].namespace: "billing" is this namespace`,
		`namespaces[0].remotes[2].namespace: 'a b' is not a valid namespace name`, `namespaces[0].remotes[2].window: 99999 is out of range`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the problems lack %s:\n%v", want, err)
		}
	}
	for _, fine := range []string{"remotes[3].namespace", "namespaces[0].remotes[0]"} {
		if strings.Contains(err.Error(), fine) {
			t.Errorf("%s is refused:\n%v", fine, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("a secret is told:\n%v", err)
	}
}
