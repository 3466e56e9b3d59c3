package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

func TestNamespacesAreReadWithWhatTheyHave(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, map[string]string{"c.yaml": `
namespace: home
partitions: 8
queues: [{name: q}]
namespaces:
  - name: orders
    hosts: [orders.example.com]
    quotas: {max-entities: 10, max-connections: 20, max-size-megabytes: 3000}
    policies: [{name: app, key: secret, secondary-key: older, rights: "Send,Listen"}]
    partitions: 2
    queues: [{name: q, max-delivery-count: 3}]
    topics: [{name: t, subscriptions: [{name: s}]}]
    retries: [{entity: "*", backoff: 1s}]
  - name: plain
    policies: [{name: app, key: another, rights: Manage}]
`}, nil, "--config=$DIR/c.yaml")
	if own := c.Own(); own.Name != "home" || len(own.Policies) != 1 {
		t.Errorf("own: got %+v", own)
	}
	others := c.Others()
	if len(others) != 2 {
		t.Fatalf("got %+v", others)
	}
	orders := others[0]
	if orders.Name != "orders" || !slices.Equal(orders.Hosts, []string{"orders.example.com"}) ||
		orders.Quotas != (core.NamespaceQuotas{MaxEntities: 10, MaxConnections: 20, MaxSizeMegabytes: 3000}) ||
		len(orders.Policies) != 1 || orders.Policies[0].SecondaryKey != "older" || orders.Policies[0].Rights != core.Send|core.Listen {
		t.Errorf("orders: got %+v", orders)
	}
	for name, want := range map[string]struct{ partitions, queues, topics, retries int }{
		"home": {8, 1, 0, 0}, "orders": {2, 1, 1, 1}, "plain": {8, 0, 0, 0}, "made-at-run-time": {8, 0, 0, 0},
	} {
		h := c.ContentsOf(name)
		if h.Partitions != want.partitions || len(h.Queues) != want.queues || len(h.Topics) != want.topics || len(h.Retries) != want.retries {
			t.Errorf("%s: got %+v", name, h)
		}
	}
}

func TestEverythingThatIsWrongWithNamespacesIsReported(t *testing.T) {
	t.Parallel()
	_, err := load(t, map[string]string{"c.yaml": `namespace: home
policies: [{name: app, key: k, rights: Send}]
namespaces:
  - name: a_b
    hosts: [localhost, 10.0.0.1, "x.example:5672", x.example]
    quotas: {max-entities: -1, max-conections: 3}
    partitions: 99
    policies: [{name: app, key: k, rights: Send}]
  - name: HOME
    policies: [{name: app, key: k2, rights: Send}, {name: app, key: k3, rights: Sned}]
    queues: [{name: a//b, lock-duration: 25h}]
    topics: [{name: t, subscriptions: [{name: s, rules: [{name: r, sql: "a ="}]}]}]
    pipelines: [{entity: "*", ingress: [{plugin: none}]}]
    retries: [{entity: ""}]
  - name: orders
    hosts: [X.example]
    policies: [{name: app, key: k4, secondary-key: k2, rights: Send}]
  - name: nobody
`}, nil, "--config=$DIR/c.yaml")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`c.yaml:4: namespaces[0].name: 'a_b' is not a valid namespace name`,
		`c.yaml:5: namespaces[0].hosts[0]: The host localhost cannot identify a namespace`,
		`namespaces[0].hosts[1]: The host 10.0.0.1 cannot identify a namespace`,
		`namespaces[0].hosts[2]: 'x.example:5672' is not a valid host name`,
		`namespaces[0].quotas.max-entities: -1 is out of range`,
		`namespaces[0].quotas.max-conections: the setting does not exist: did you mean max-connections?`,
		`namespaces[0].partitions: 99 is out of range`,
		`namespaces[0].policies[0].key: policy "app" with this key already belongs to namespace "home"`,
		`c.yaml:9: namespaces[1].name: "HOME" is listed twice`,
		`namespaces[1].policies[1]: policy "app" is listed twice`,
		`namespaces[1].policies[1].rights: "Sned"`,
		`namespaces[1].queues[0].name:`,
		`namespaces[1].queues[0].lock-duration:`,
		`namespaces[1].topics[0].subscriptions[0].rules[0]:`,
		`namespaces[1].pipelines[0].ingress[0].plugin: the plugin "none" is not configured`,
		`namespaces[1].retries[0].entity: the entity is missing`,
		`namespaces[2].hosts[0]: host X.example is listed twice`,
		`namespaces[2].policies[0].key: policy "app" with this key already belongs to namespace "HOME"`,
		`namespaces[3].policies: namespace "nobody" has no policy`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Logf("got:\n%v", err)
	}
}

func TestTheDevelopmentKeyCountsInAnyNamespace(t *testing.T) {
	t.Parallel()
	_, err := load(t, map[string]string{"c.yaml": `
policies: [{name: RootManageSharedAccessKey, key: own, rights: Manage}]
namespaces: [{name: suite, policies: [{name: root, key: SAS_KEY_VALUE, rights: Manage}]}]
`}, nil, "--config=$DIR/c.yaml", "--listen=0.0.0.0:5672")
	if err == nil || !strings.Contains(err.Error(), "public development key") {
		t.Errorf("got %v", err)
	}
}
