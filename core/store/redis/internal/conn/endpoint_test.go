package conn

import (
	"fmt"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, want string }{
		{"redis://h:6380/3", "single tcp h:6380 db 3"},
		{"redis://h", "single tcp h:6379 db 0"},
		{"rediss://me:secret@h:6380", "single tcp h:6380 db 0 tls me:secret"},
		{"unix:///run/redis.sock?db=2", "single unix /run/redis.sock db 2"},
		{"redis+unix:///run/redis.sock", "single unix /run/redis.sock db 0"},
		{"redis://h1:7000,h2:7001,h3:7002", "cluster [h1:7000 h2:7001 h3:7002]"},
		{"redis://me:secret@h1:7000,h2:7001/?cluster=true", "cluster [h1:7000 h2:7001] me:secret"},
		{"rediss://h1:7000?addr=h2:7001", "cluster [h1:7000 h2:7001] tls"},
		{"redis://h1:7000/?cluster=true", "cluster [h1:7000]"},
		{"redis+sentinel://h1:26379,h2:26380/mymaster/2", "sentinel [h1:26379 h2:26380] mymaster db 2"},
		{"redis+sentinel://h1:26379/mymaster?replicas=2&fsync=1", "sentinel [h1:26379] mymaster db 0, 2 replicas, fsync true"},
		{"redis://h1:7000,h2:7001?replicas=1", "cluster [h1:7000 h2:7001], 1 replicas, fsync false"},
		{"redis://h?replicas=0", "single tcp h:6379 db 0"},
		{"rediss+sentinel://me:secret@h1:26379/mymaster", "sentinel [h1:26379] mymaster db 0 tls me:secret"},
	} {
		target, err := ParseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if got := target.String(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.url, got, c.want)
		}
		if strings.Contains(target.Safe, "secret") || strings.Contains(target.Safe, "me:") {
			t.Errorf("%s: the address for people is %s, which gives credentials away", c.url, target.Safe)
		}
	}
}

// String describes a target for comparison.
func (t endpoint) String() (text string) {
	var tls, user string
	defer func() {
		if t.Replicas > 0 {
			text += fmt.Sprintf(", %d replicas, fsync %t", t.Replicas, t.fsync)
		}
	}()
	secure := func(user, password string, tls bool) string {
		s := ""
		if tls {
			s += " tls"
		}
		if password != "" {
			s += " " + user + ":" + password
		}
		return s
	}
	switch {
	case t.Single != nil:
		o := t.Single
		return fmt.Sprintf("single %s %s db %d%s", o.Network, o.Addr, o.DB, secure(o.Username, o.Password, o.TLSConfig != nil))
	case t.cluster != nil:
		o := t.cluster
		return fmt.Sprintf("cluster %v%s", o.Addrs, secure(o.Username, o.Password, o.TLSConfig != nil))
	case t.Sentinel != nil:
		o := t.Sentinel
		return fmt.Sprintf("sentinel %v %s db %d%s", o.SentinelAddrs, o.MasterName, o.DB, secure(o.Username, o.Password, o.TLSConfig != nil))
	}
	return tls + user
}

func TestBadURLsAreExplainedWithoutCredentials(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, want string }{
		{"http://me:secret@h", `scheme "http"`},
		{"redis://me:secret@h:port", "malformed"},
		{"redis://me:secret@h/x", "database"},
		{"redis://me:secret@h/?nosuch=1", "nosuch"},
		{"unix://", "socket path"},
		{"redis+sentinel://me:secret@h:26379", "master's name"},
		{"redis+sentinel://me:secret@h:26379/m/x", `database "x"`},
		{"redis://me:secret@h/?replicas=x", "replicas=x"},
		{"redis://me:secret@h/?replicas=-1", "replicas=-1"},
		{"redis://me:secret@h/?fsync=1", "fsync=1 requires replicas"},
		{"redis://me:secret@h/?replicas=1&fsync=maybe", "fsync=maybe"},
		{"redis://me:secret@h/?replicas=1&nosuch=1", "nosuch"},
		{"unix:///run/redis.sock?replicas=1", "socket"},
		{"%%", "malformed"},
		{"", "scheme"},
	} {
		_, err := ParseURL(c.url)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want mention of %q and no credentials", c.url, err, c.want)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("redis://me:pw@h1:1,h2:2/?cluster=true")
	f.Fuzz(func(t *testing.T, url string) {
		if target, err := ParseURL(url); err == nil && target.Safe == "" {
			t.Fatalf("%q: no address for people", url)
		}
	})
}
