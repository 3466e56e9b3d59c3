package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

func TestSerializersAreNamedInTheirOrder(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `plugins: [{name: avro, path: /bin/avro}]
serializers:
  chain: [msgpack, avro, json]
  entities:
    - {name: orders, chain: [cbor]}
    - {name: events/Subscriptions/all, deliver: "application/json, text/plain;q=0.5"}
`}
	c := mustLoad(t, files, nil, "--config=$DIR/c.yaml")
	want := config.Serializers{
		Chain: []string{"msgpack", "avro", "json"},
		Entities: []config.EntitySerializers{
			{Name: "orders", Chain: []string{"cbor"}},
			{Name: "events/Subscriptions/all", Deliver: "application/json, text/plain;q=0.5"},
		},
	}
	if !reflect.DeepEqual(c.Serializers, want) {
		t.Errorf("got %+v, want %+v", c.Serializers, want)
	}
}

func TestSerializersAreChecked(t *testing.T) {
	t.Parallel()
	files := map[string]string{"c.yaml": `plugins: [{name: cbor, path: x}]
serializers:
  entities:
    - {name: orders, chain: [json, jsno]}
    - {name: ORDERS, chain: [json, json]}
    - {name: a, deliver: json, chain: [json]}
    - {name: b, deliver: application/json}
    - {name: c}
    - {name: "?", chain: [json]}
`}
	_, err := load(t, files, nil, "--config=$DIR/c.yaml", "--serializers-chain=xml")
	for _, want := range []string{
		`the serializer "xml" does not exist: use json, msgpack`,
		`the serializer "jsno" does not exist`,
		`"cbor" is the name of a built-in serializer`,
		`"ORDERS" is listed twice`,
		`json is listed twice`,
		`"json" is not a content type`,
		`"c" has no settings`,
		`serializers.entities[5].name`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	_, err = load(t, map[string]string{"c.yaml": "serializers: {entities: [{name: b, deliver: application/json}]}"}, nil, "--config=$DIR/c.yaml")
	if want := `no serializer writes the content type "application/json"`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
