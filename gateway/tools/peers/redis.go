package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/internal/redisserver"
)

// slots is the number of hash slots a Redis Cluster has.
const slots = 16384

func findRedis() (string, error) {
	program, ok := redisserver.Find()
	if !ok {
		return "", skipped("no redis-server or valkey-server of version 7.0 or newer on the PATH: apt install redis-server")
	}
	return program, nil
}

// redisVersion returns the version of the Redis of a broker that has one.
func (b *broker) redisVersion() string {
	for _, p := range b.processes {
		all, _ := family(p.cmd.Process.Pid) // without /proc the version is not told
		for _, m := range all {
			if !strings.Contains(m.name, "redis") && !strings.Contains(m.name, "valkey") {
				continue
			}
			out, err := exec.Command(m.name, "--version").Output()
			if v := regexp.MustCompile(`v=(\S+)`).FindSubmatch(out); err == nil && v != nil {
				return "Redis " + string(v[1])
			}
		}
	}
	return ""
}

// startRedis runs a Redis and returns the URL for the gateway.
func startRedis(ctx context.Context, b *broker, dir, fsync string) (string, error) {
	socket := filepath.Join(dir, "redis.sock")
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer func() { _ = client.Close() }() // it only asked whether the server is ready
	err := serveRedis(ctx, b, filepath.Join(dir, "redis"), fsync, client, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700")
	return "unix://" + socket, err
}

// serveRedis starts a server that keeps its data in dir, and waits for it.
func serveRedis(ctx context.Context, b *broker, dir, fsync string, client *redis.Client, args ...string) error {
	program, err := findRedis()
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	p, err := launch(dir, "redis", []string{"LC_ALL=C"}, program, append(args,
		"--dir", dir, "--appendonly", "yes", "--appendfsync", fsync, "--auto-aof-rewrite-min-size", "256mb", "--zset-max-listpack-entries", "16", "--save", "", "--maxmemory-policy", "noeviction", "--daemonize", "no")...)
	if err != nil {
		return err
	}
	b.processes = append(b.processes, p)
	return p.await(ctx, func() error { return client.Ping(ctx).Err() })
}

// startCluster runs masters of a Redis Cluster.
func startCluster(ctx context.Context, b *broker, dir string, masters int, fsync string) (string, error) {
	var hosts []string
	var clients []*redis.Client
	defer func() {
		for _, c := range clients {
			_ = c.Close() // the cluster is formed, or it is not
		}
	}()
	for i := range masters {
		host, err := address()
		if err != nil {
			return "", err
		}
		hosts = append(hosts, host)
		clients = append(clients, redis.NewClient(&redis.Options{Addr: host}))
		err = serveRedis(ctx, b, filepath.Join(dir, "redis-"+strconv.Itoa(i)), fsync, clients[i],
			"--bind", "127.0.0.1", "--port", host[strings.LastIndexByte(host, ':')+1:], "--cluster-enabled", "yes")
		if err != nil {
			return "", err
		}
		if err := clients[i].ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err(); err != nil {
			return "", fmt.Errorf("form a cluster: %w", err)
		}
		if err := clients[i].Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return "", fmt.Errorf("form a cluster: %w", err)
		}
	}
	for i := range clients {
		for _, other := range hosts[:i] {
			if err := clients[i].ClusterMeet(ctx, "127.0.0.1", other[strings.LastIndexByte(other, ':')+1:]).Err(); err != nil {
				return "", fmt.Errorf("form a cluster: %w", err)
			}
		}
	}
	for i, p := range b.processes {
		err := p.await(ctx, func() error {
			info, err := clients[i].ClusterInfo(ctx).Result()
			if err == nil && (!strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", masters))) {
				err = fmt.Errorf("the cluster is not formed")
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return "redis://" + strings.Join(hosts, ","), nil
}
