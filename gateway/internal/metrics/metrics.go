// Package metrics exports the gateway's counters to Prometheus. It reads the counts of other
// packages at each scrape. Only two parts run for each event: a wrapper that times the calls of the
// store, and an interceptor that counts the requests of bridges.
package metrics

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const prefix = "crosstown"

const (
	defaultEntities   = 500
	defaultNamespaces = 100
	defaultRefresh    = 15 * time.Second
	maxScrapes        = 4
)

type Options struct {
	Version string
	// MaxEntities bounds the entities with separate time series, once for the gateway's own
	// namespace and once for all others; default 500. "_other" has the sum of the rest.
	MaxEntities int
	// MaxNamespaces bounds how many namespaces besides the gateway's own have separate series,
	// which only operators see; default 100. "_other" has the sum of the rest.
	MaxNamespaces int
	// Refresh bounds the age of the store's counts; default 15 s.
	Refresh time.Duration
	// nil means slog.Default().
	Logger *slog.Logger
}

// Call Namespace for each namespace, and the other methods with a source once, at start-up.
type Metrics struct {
	o        Options
	registry *prometheus.Registry // for all but namespaces
	spaces   spaces
}

func New(o Options) *Metrics {
	if o.MaxEntities <= 0 {
		o.MaxEntities = defaultEntities
	}
	if o.MaxNamespaces <= 0 {
		o.MaxNamespaces = defaultNamespaces
	}
	if o.Refresh <= 0 {
		o.Refresh = defaultRefresh
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	m := &Metrics{o: o, registry: prometheus.NewRegistry()}
	m.spaces.own.left, m.spaces.others.left = o.MaxEntities, o.MaxEntities
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: prefix, Name: "build_info", Help: "Always 1; the label version contains the version of the program.",
		ConstLabels: prometheus.Labels{"version": o.Version},
	})
	info.Set(1)
	var c collector
	served := c.gauge("namespaces", "Namespaces that this gateway serves, including those without their own series.")
	m.register(&c, func(s scrape) { served(s, float64(m.spaces.count())) })
	m.registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler returns the handler of operators' scrapes, with all namespaces.
func (m *Metrics) Handler() http.Handler { return m.handler(prometheus.GathererFunc(m.gather)) }

func (m *Metrics) handler(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(m.o.Logger.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: maxScrapes,
	})
}

// scrape has the values of one collector. Values of a metric with equal labels are added up.
type scrape = *values

type values struct {
	sums       map[sample]float64
	histograms []prometheus.Metric
}

type sample struct {
	of     *prometheus.Desc
	kind   prometheus.ValueType
	labels [3]string // the first n are used
	n      int
}

type metric func(s scrape, v float64, labels ...string)

type collector struct {
	labels  prometheus.Labels // of all its metrics
	descs   []*prometheus.Desc
	collect func(scrape)
}

func inNamespace(name string) *collector {
	return &collector{labels: prometheus.Labels{"namespace": name}}
}

func (c *collector) gauge(name, help string, labels ...string) metric {
	return c.metric(prometheus.GaugeValue, name, help, labels)
}

func (c *collector) counter(name, help string, labels ...string) metric {
	return c.metric(prometheus.CounterValue, name, help, labels)
}

func (c *collector) metric(kind prometheus.ValueType, name, help string, labels []string) metric {
	d := c.describe(name, help, labels...)
	return func(s scrape, v float64, labels ...string) {
		x := sample{of: d, kind: kind}
		x.n = copy(x.labels[:], labels)
		s.sums[x] += v
	}
}

func (c *collector) describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(prefix+"_"+name, help, labels, c.labels)
	c.descs = append(c.descs, d)
	return d
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := &values{sums: map[sample]float64{}}
	c.collect(s)
	for x, v := range s.sums {
		ch <- prometheus.MustNewConstMetric(x.of, x.kind, v, x.labels[:x.n]...)
	}
	for _, h := range s.histograms {
		ch <- h
	}
}

func (m *Metrics) register(c *collector, collect func(scrape)) {
	c.collect = collect
	m.registry.MustRegister(c)
}
