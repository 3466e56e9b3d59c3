package conn

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	dialTimeout   = 2 * time.Second
	socketTimeout = 5 * time.Second
)

// Exactly one of Single, cluster and Sentinel is set.
type endpoint struct {
	Safe     string // URL without credentials
	Single   *redis.Options
	cluster  *redis.ClusterOptions
	Sentinel *redis.FailoverOptions
	Wait     time.Duration
	Patience patience
	Replicas int  // 0: no replica must confirm a write
	fsync    bool // the master and the replicas must also have synced each write to disk
}

// ParseURL parses a URL in one of the forms that redis.Open lists.
func ParseURL(raw string) (endpoint, error) {
	u, err := url.Parse(normal(raw))
	if err != nil {
		// Do not wrap err: it contains the URL with its credentials.
		return endpoint{}, fmt.Errorf("the Redis URL is malformed: write it like redis://user:password@host:6379/0")
	}
	t := endpoint{Safe: safeURL(u)}
	if err := t.takeReplicas(u); err != nil {
		return endpoint{}, fmt.Errorf("the Redis URL %s is not usable: %w", t.Safe, err)
	}
	switch u.Scheme {
	case "redis", "rediss":
		if isCluster(u) {
			t.cluster, err = parseCluster(u)
		} else {
			t.Single, err = redis.ParseURL(u.String())
		}
	case "unix", "redis+unix":
		u.Scheme = "unix"
		t.Single, err = redis.ParseURL(u.String())
		if t.Replicas > 0 {
			err = errors.New("the parameter 'replicas' is not allowed with a Unix socket, because the gateway could not follow a failover: use a host and port, Sentinels or a cluster")
		}
	case "redis+sentinel", "rediss+sentinel":
		t.Sentinel, err = parseSentinel(u)
	default:
		return endpoint{}, fmt.Errorf("the Redis URL %s has the scheme %q: use redis, rediss, unix, redis+sentinel or rediss+sentinel", t.Safe, u.Scheme)
	}
	if err != nil {
		return endpoint{}, fmt.Errorf("the Redis URL %s is not usable: %s", t.Safe, strings.TrimPrefix(err.Error(), "redis: "))
	}
	t.tune()
	return t, nil
}

func (t *endpoint) takeReplicas(u *url.URL) (err error) {
	q := u.Query()
	if text := q.Get("replicas"); q.Has("replicas") {
		if t.Replicas, err = strconv.Atoi(text); err != nil || t.Replicas < 0 {
			return fmt.Errorf("replicas=%s is not a whole number of at least 0: set the number of replicas that must confirm each write, such as 1", text)
		}
	}
	if text := q.Get("fsync"); q.Has("fsync") {
		if t.fsync, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("fsync=%s is not valid: use 1 or 0", text)
		}
	}
	if t.fsync && t.Replicas == 0 {
		return errors.New("fsync=1 requires replicas=1 or more: without replicas, set appendfsync always in the server's configuration")
	}
	q.Del("replicas")
	q.Del("fsync")
	u.RawQuery = q.Encode()
	return nil
}

// normal moves hosts after the first to addr parameters: net/url accepts only one host with a port.
func normal(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return raw
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	authority, tail := rest[:end], rest[end:]
	at := strings.LastIndex(authority, "@") + 1
	hosts := strings.Split(authority[at:], ",")
	if len(hosts) == 1 {
		return raw
	}
	path, query, _ := strings.Cut(tail, "?")
	for _, host := range hosts[1:] {
		if query != "" {
			query += "&"
		}
		query += "addr=" + url.QueryEscape(host)
	}
	return scheme + "://" + authority[:at] + hosts[0] + path + "?" + query
}

// safeURL returns the URL without credentials, and without parameters other than addr.
func safeURL(u *url.URL) string {
	c := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if more := u.Query()["addr"]; len(more) > 0 {
		c.Host += "," + strings.Join(more, ",")
	}
	return c.String()
}

func isCluster(u *url.URL) bool {
	q := u.Query()
	return q.Has("addr") || q.Get("cluster") == "true" || q.Get("cluster") == "1"
}

func parseCluster(u *url.URL) (*redis.ClusterOptions, error) {
	c := *u
	q := c.Query()
	q.Del("cluster")
	c.RawQuery, c.Path = q.Encode(), ""
	return redis.ParseClusterURL(c.String())
}

func parseSentinel(u *url.URL) (*redis.FailoverOptions, error) {
	master, db, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if master == "" {
		return nil, fmt.Errorf("the master's name is missing: write it like redis+sentinel://host1:26379,host2:26379/mymaster")
	}
	c := *u
	q := c.Query()
	q.Set("master_name", master)
	user, password := q.Get("sentinel_username"), q.Get("sentinel_password")
	q.Del("sentinel_username")
	q.Del("sentinel_password")
	c.Scheme, _, _ = strings.Cut(u.Scheme, "+")
	c.RawQuery, c.Path = q.Encode(), ""
	o, err := redis.ParseFailoverURL(c.String())
	if err != nil {
		return nil, err
	}
	// go-redis gives the URL's user and password to the Sentinels; here the data servers get them.
	o.Username, o.Password = o.SentinelUsername, o.SentinelPassword
	o.SentinelUsername, o.SentinelPassword = user, password
	if db != "" {
		if o.DB, err = strconv.Atoi(db); err != nil {
			return nil, fmt.Errorf("the database %q is not a number", db)
		}
	}
	return o, nil
}

// protocol is RESP2: with RESP3, go-redis looks for push notifications before every reply.
const protocol = 2

// tune overrides the URL: go-redis must not resend commands, and contexts bound every exchange.
func (t *endpoint) tune() {
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch {
	case t.Single != nil:
		o := t.Single
		o.MaxRetries, o.ContextTimeoutEnabled, o.MaintNotificationsConfig = -1, true, quiet
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.DialerRetries = dialTimeout, socketTimeout, socketTimeout, 1
		o.Protocol, o.Dialer = protocol, dialer(o.TLSConfig)
	case t.cluster != nil:
		o := t.cluster
		o.MaxRetries, o.ContextTimeoutEnabled, o.MaintNotificationsConfig = -1, true, quiet
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.DialerRetries = dialTimeout, socketTimeout, socketTimeout, 1
		o.Protocol, o.Dialer = protocol, dialer(o.TLSConfig)
		o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false // replicas may not have the latest writes
		o.DisableRoutingPolicies = true                                     // saves the COMMAND call; no command goes to several nodes
	default:
		o := t.Sentinel
		o.MaxRetries, o.ContextTimeoutEnabled = -1, true // for Sentinel, go-redis has no maintenance notifications
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.DialerRetries = dialTimeout, socketTimeout, socketTimeout, 1
		o.Protocol, o.Dialer = protocol, dialer(o.TLSConfig)
	}
}

func (t *endpoint) AsCluster() {
	o := t.Single
	t.cluster = &redis.ClusterOptions{
		Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		PoolSize: o.PoolSize, ClientName: o.ClientName,
	}
	t.Single = nil
	t.tune()
}

// Connect returns a client that runs opened on each new connection. The second result is the same
// client if it is for a cluster, otherwise nil.
func (t *endpoint) Connect(opened func(context.Context, *redis.Conn) error) (redis.UniversalClient, *redis.ClusterClient) {
	t.Patience = patience{Wait: t.Wait, absences: newAbsences()}
	var c redis.UniversalClient
	switch {
	case t.Single != nil:
		t.Single.OnConnect = opened
		c = redis.NewClient(t.Single)
	case t.Sentinel != nil:
		t.Sentinel.OnConnect = opened
		c = redis.NewFailoverClient(t.Sentinel)
	default:
		t.cluster.OnConnect = opened
		t.Patience.cluster = redis.NewClusterClient(t.cluster)
		c = t.Patience.cluster
	}
	c.AddHook(t.Patience)
	return c, t.Patience.cluster
}
