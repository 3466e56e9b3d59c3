package config

import (
	"reflect"
	"slices"
)

// NeedRestart lists the settings in which a configuration differs from that of a
// running gateway and which it takes up at its start only.
func (c *Config) NeedRestart(running *Config) []string {
	return differences(reflect.ValueOf(*running.fixed()), reflect.ValueOf(*c.fixed()), "")
}

// fixed is the configuration without what a running gateway takes up.
func (c *Config) fixed() *Config {
	f := *c
	f.Log.Level, f.Skipped, f.UpdateEntities = "", nil, false
	if f.TLS.Cert != "" { // else it is the development certificate, which is another matter
		f.TLS.Cert, f.TLS.Key = "its own", "its own"
	}
	f.Contents = c.Contents.fixed()
	f.Namespaces = slices.Clone(c.Namespaces)
	for i := range f.Namespaces {
		n := &f.Namespaces[i]
		n.Hosts, n.Quotas, n.Contents = nil, Quotas{}, n.Contents.fixed()
	}
	return &f
}

func (h Contents) fixed() Contents {
	h.Policies, h.Queues, h.Topics, h.Retries, h.Hooks, h.Pushes = nil, nil, nil, nil, nil, nil
	return h
}

func differences(a, b reflect.Value, prefix string) []string {
	var all []string
	for _, f := range fields(a.Type()) {
		x, y, path := a.FieldByIndex(f.Index), b.FieldByIndex(f.Index), prefix+f.Tag.Get("config")
		switch {
		case f.Type.Kind() == reflect.Struct:
			all = append(all, differences(x, y, path+".")...)
		case !reflect.DeepEqual(x.Interface(), y.Interface()):
			all = append(all, path)
		}
	}
	return all
}
