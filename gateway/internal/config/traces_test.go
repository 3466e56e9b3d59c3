package config_test

import (
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

func TestTraces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file    string
		environ []string
		args    []string
		want    config.Traces
	}{
		"are off": {want: config.Traces{Sample: 1}},
		"of the file": {
			file: "traces: {endpoint: 'https://traces.example.com', sample: 0.01}\n",
			want: config.Traces{Endpoint: "https://traces.example.com/v1/traces", Protocol: "http", Sample: 0.01},
		},
		"to a path": {
			file: "traces: {endpoint: 'https://example.com/otlp/v1/traces', sample: 0}\n",
			want: config.Traces{Endpoint: "https://example.com/otlp/v1/traces", Protocol: "http"},
		},
		"of flags, to gRPC's port": {
			args: []string{"--traces-endpoint=http://localhost:4317", "--traces-sample=0.5"},
			want: config.Traces{Endpoint: "http://localhost:4317", Protocol: "grpc", Sample: 0.5},
		},
		"of variables": {
			environ: []string{"CROSSTOWN_TRACES_ENDPOINT=http://localhost:1", "CROSSTOWN_TRACES_PROTOCOL=grpc", "CROSSTOWN_TRACES_SAMPLE=1"},
			want:    config.Traces{Endpoint: "http://localhost:1", Protocol: "grpc", Sample: 1},
		},
		"of OpenTelemetry's variables": {
			environ: []string{
				"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318/base", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
				"OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.25",
			},
			want: config.Traces{Endpoint: "http://collector:4318/base/v1/traces", Protocol: "http", Sample: 0.25},
		},
		"of OpenTelemetry's variables for traces": {
			environ: []string{
				"OTEL_EXPORTER_OTLP_ENDPOINT=http://other:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://collector/in",
				"OTEL_TRACES_SAMPLER=always_off",
			},
			want: config.Traces{Endpoint: "http://collector/in", Protocol: "http"},
		},
		"of the file, not of OpenTelemetry's variables": {
			file:    "traces: {endpoint: 'http://collector:4318', protocol: http, sample: 0.5}\n",
			environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://other", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_TRACES_SAMPLER=always_on"},
			want:    config.Traces{Endpoint: "http://collector:4318/v1/traces", Protocol: "http", Sample: 0.5},
		},
		"are off where OpenTelemetry is": {
			environ: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://other", "OTEL_SDK_DISABLED=true"},
			want:    config.Traces{Sample: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := mustLoad(t, map[string]string{"c.yaml": c.file}, c.environ, append(c.args, "--config=$DIR/c.yaml")...).Traces
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestBadSettingsOfTracesAreReported(t *testing.T) {
	t.Parallel()
	for want, file := range map[string]string{
		"c.yaml:1: traces.sample: 1.5 is not a fraction of the messages: ":     "traces: {sample: 1.5}\n",
		"c.yaml:1: traces.sample: many is not a number: ":                      "traces: {sample: many}\n",
		"c.yaml:1: traces.protocol: \"thrift\" is unknown: ":                   "traces: {protocol: thrift}\n",
		"c.yaml:1: traces.endpoint: the value is not the URL of a collector: ": "traces: {endpoint: 'localhost:4317'}\n",
		"c.yaml:1: traces.endpoint: the URL contains a user or a password: ":   "traces: {endpoint: 'http://u:p@localhost'}\n",
		"c.yaml:1: traces.headers: the setting does not exist: remove ":        "traces: {headers: x}\n",
	} {
		if _, err := load(t, map[string]string{"c.yaml": file}, nil, "--config=$DIR/c.yaml"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%sgot\n%v\nlacks\n%s", file, err, want)
		}
	}
	for want, environ := range map[string][]string{
		"OTEL_TRACES_SAMPLER: \"xray\" is unknown: ":                       {"OTEL_TRACES_SAMPLER=xray"},
		"OTEL_TRACES_SAMPLER_ARG: \"2\" is not a fraction of the messages": {"OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=2"},
		"OTEL_EXPORTER_OTLP_PROTOCOL: ":                                    {"OTEL_EXPORTER_OTLP_PROTOCOL=http/json"},
		"OTEL_EXPORTER_OTLP_ENDPOINT: the value is not the URL":            {"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317"},
	} {
		if _, err := load(t, nil, environ); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got\n%v\nlacks\n%s", environ, err, want)
		}
	}
}
