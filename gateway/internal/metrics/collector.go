package metrics

import "github.com/prometheus/client_golang/prometheus"

// scrape takes the values of one scrape.
type scrape = chan<- prometheus.Metric

// metric gives a scrape one value, with the values of its labels.
type metric func(s scrape, v float64, labels ...string)

// collector describes metrics, and has collect give their values at each scrape.
type collector struct {
	labels  prometheus.Labels // that all its metrics have
	descs   []*prometheus.Desc
	collect func(scrape)
}

// inNamespace makes a collector whose metrics have the label of a namespace.
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
	return func(s scrape, v float64, labels ...string) { s <- prometheus.MustNewConstMetric(d, kind, v, labels...) }
}

func (c *collector) describe(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(prefix+"_"+name, help, labels, c.labels)
	c.descs = append(c.descs, d)
	return d
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) { c.collect(ch) }

// register shows what collect gives.
func (m *Metrics) register(c *collector, collect func(scrape)) {
	c.collect = collect
	m.registry.MustRegister(c)
}
