package config

import (
	"net/url"
	"strconv"
	"strings"
)

type Traces struct {
	Endpoint string  `config:"endpoint" usage:"URL of the OpenTelemetry collector that gets the traces of messages, such as http://localhost:4318 (default: none)"`
	Protocol string  `config:"protocol" values:"http, grpc" usage:"protocol to the collector: http or grpc (default: grpc for port 4317, else http)"`
	Sample   float64 `config:"sample" usage:"fraction, 0 to 1, of the messages without a trace context that the gateway traces"`
}

const (
	tracesHTTP = "http"
	tracesGRPC = "grpc"
	grpcPort   = "4317" // by convention
)

const tracesPath = "/v1/traces"

// inherit reads settings that are not configured from OpenTelemetry's variables (OTEL_…).
func (t *Traces) inherit(environ []string, r *report) {
	read := func(path string, use func(value string), variables ...string) {
		for _, name := range variables {
			if _, given := r.origins[path]; !given && Variable(environ, name) != "" {
				use(Variable(environ, name))
				r.origins[path] = origin{source: name}
			}
		}
	}
	if !strings.EqualFold(Variable(environ, "OTEL_SDK_DISABLED"), "true") && Variable(environ, "OTEL_TRACES_EXPORTER") != "none" {
		read("traces.endpoint", func(v string) { t.Endpoint = v }, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	}
	read("traces.protocol", func(v string) { t.Protocol = strings.TrimSuffix(v, "/protobuf") }, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
	if _, given := r.origins["traces.sample"]; !given {
		t.inheritSampler(environ, r)
	}
}

// inheritSampler sets Sample from OTEL_TRACES_SAMPLER. Sample applies only to messages without a
// trace context: for other messages, the sender has decided.
func (t *Traces) inheritSampler(environ []string, r *report) {
	const variable, argument = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	switch name := strings.TrimPrefix(Variable(environ, variable), "parentbased_"); name {
	case "":
	case "always_on":
		t.Sample = 1
	case "always_off":
		t.Sample = 0
	case "traceidratio":
		part, err := strconv.ParseFloat(Variable(environ, argument), 64)
		if err != nil || !(part >= 0 && part <= 1) {
			r.addAt(origin{source: argument}, "%q is not a fraction of the messages: use 0 to 1, such as 0.01", Variable(environ, argument))
			return
		}
		t.Sample = part
	default:
		r.addAt(origin{source: variable}, "%q is unknown: use one of always_on, always_off, traceidratio, with or without parentbased_ before it", name)
	}
}

func (t *Traces) complete(r *report) {
	r.require("traces.sample", t.Sample >= 0 && t.Sample <= 1,
		"%v is not a fraction of the messages: use 0 to 1, such as 0.01", t.Sample)
	if t.Endpoint == "" {
		return
	}
	u, err := url.Parse(t.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		r.add("traces.endpoint", "the value is not the URL of a collector: write one such as http://localhost:4318, or https://…")
		return
	}
	if u.User != nil {
		r.add("traces.endpoint", "the URL contains a user or a password: set them in OTEL_EXPORTER_OTLP_HEADERS")
		return
	}
	if t.Protocol == "" {
		t.Protocol = tracesHTTP
		if u.Port() == grpcPort {
			t.Protocol = tracesGRPC
		}
	}
	if t.Protocol == tracesHTTP && !strings.HasSuffix(u.Path, tracesPath) && r.origins["traces.endpoint"].source != "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" {
		t.Endpoint = u.JoinPath(tracesPath).String()
	}
}
