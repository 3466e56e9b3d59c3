// Package metrics exports the gateway's counters to Prometheus. At each scrape it reads counts that
// other packages keep. Only two parts run for each event: a wrapper that times the calls of the
// store, and an interceptor that counts the requests of bridges.
package metrics

import (
	"cmp"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/semaphore"
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
	// MaxEntities limits the entities with separate time series: once for the gateway's own namespace,
	// and once for all others together; default 500. The label "_other" has the sum of the rest.
	MaxEntities int
	// MaxNamespaces limits the namespaces with separate series, besides the gateway's own; default
	// 100. Only operators see them. The label "_other" has the sum of the rest.
	MaxNamespaces int
	// Refresh is the largest age of counts from the store; default 15 s.
	Refresh time.Duration
	// Logger is slog.Default() if it is nil.
	Logger *slog.Logger
}

// Metrics exports counters. Before the first scrape, call each method with a source once, but
// Namespace for each namespace.
type Metrics struct {
	o        Options
	registry *prometheus.Registry // for all metrics except those of namespaces
	spaces   spaces
}

func New(o Options) *Metrics {
	o.MaxEntities = cmp.Or(o.MaxEntities, defaultEntities)
	o.MaxNamespaces = cmp.Or(o.MaxNamespaces, defaultNamespaces)
	o.Refresh = cmp.Or(o.Refresh, defaultRefresh)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	m := &Metrics{o: o, registry: prometheus.NewRegistry()}
	m.spaces.own, m.spaces.others = semaphore.NewWeighted(int64(o.MaxEntities)), semaphore.NewWeighted(int64(o.MaxEntities))
	m.register(func(s *scrape) {
		s.gauge("build_info", "Always 1; the label version contains the version of the program.", 1, "version", o.Version)
		s.gauge("namespaces", "Namespaces that this gateway serves, including those without their own series.", float64(m.spaces.count()))
	})
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler answers scrapes of operators, with the metrics of all namespaces.
func (m *Metrics) Handler() http.Handler { return m.handler(prometheus.GathererFunc(m.gather)) }

func (m *Metrics) handler(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(m.o.Logger.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: maxScrapes,
	})
}

// scrape collects the values of one collector. It adds up values of a metric with equal labels.
type scrape struct {
	labels     prometheus.Labels           // labels of all metrics
	descs      map[string]*prometheus.Desc // by name of the metric
	sums       map[sample]float64
	histograms []prometheus.Metric
}

type sample struct {
	of     *prometheus.Desc
	kind   prometheus.ValueType
	labels [3]string // values of the first n labels
	n      int
}

// gauge adds v to a gauge. labels has pairs of a name and a value.
func (s *scrape) gauge(name, help string, v float64, labels ...string) {
	s.add(prometheus.GaugeValue, name, help, v, labels)
}

func (s *scrape) counter(name, help string, v float64, labels ...string) {
	s.add(prometheus.CounterValue, name, help, v, labels)
}

func (s *scrape) add(kind prometheus.ValueType, name, help string, v float64, labels []string) {
	x := sample{kind: kind}
	var names []string
	for pair := range slices.Chunk(labels, 2) {
		names = append(names, pair[0])
		x.labels[x.n] = pair[1]
		x.n++
	}
	x.of = s.describe(name, help, names...)
	s.sums[x] += v
}

func (s *scrape) describe(name, help string, labels ...string) *prometheus.Desc {
	if s.descs[name] == nil {
		s.descs[name] = prometheus.NewDesc(prefix+"_"+name, help, labels, s.labels)
	}
	return s.descs[name]
}

type collector struct {
	labels  prometheus.Labels // labels of all metrics
	collect func(*scrape)
}

func inNamespace(name string, collect func(*scrape)) *collector {
	return &collector{prometheus.Labels{"namespace": name}, collect}
}

// Describe sends nothing, which makes the collector "unchecked": Collect may return any metric.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := &scrape{labels: c.labels, descs: map[string]*prometheus.Desc{}, sums: map[sample]float64{}}
	c.collect(s)
	for x, v := range s.sums {
		ch <- prometheus.MustNewConstMetric(x.of, x.kind, v, x.labels[:x.n]...)
	}
	for _, h := range s.histograms {
		ch <- h
	}
}

func (m *Metrics) register(collect func(*scrape)) {
	m.registry.MustRegister(&collector{collect: collect})
}
