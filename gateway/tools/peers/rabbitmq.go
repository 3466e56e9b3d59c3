package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/gateway/internal/bench"
)

// rabbitmq starts RabbitMQ with all queues of one type. From version 4.0 on the driver uses AMQP
// 1.0; before, it uses AMQP 0-9-1 with RabbitMQ's own client, because the AMQP 1.0 plugin of those
// versions stops delivering from quorum queues.
type rabbitmq struct{ queues string }

// debianPrograms is where Debian's packages keep the programs. Those on the PATH switch to a user
// that can read only RabbitMQ's own directories.
const debianPrograms = "/usr/lib/rabbitmq/bin"

// find returns the folder of RabbitMQ's programs.
func (rabbitmq) find() (string, error) {
	server, err := exec.LookPath("rabbitmq-server")
	if err != nil {
		return "", skipped("not installed: apt install rabbitmq-server")
	}
	if _, err := exec.LookPath("epmd"); err != nil {
		return "", skipped("epmd, a part of Erlang, is not on the PATH: apt install erlang-base")
	}
	if _, err := os.Stat(filepath.Join(debianPrograms, "rabbitmq-server")); err == nil {
		return debianPrograms, nil
	}
	return filepath.Dir(server), nil
}

// start runs a node whose definitions have the queues of all scenarios.
func (r rabbitmq) start(ctx context.Context, l *lab, s setup) (_ *broker, err error) {
	if l.settle != string(bench.SettleFirst) {
		return nil, skipped("it does not confirm what receivers accept, as -settle " + l.settle + " asks")
	}
	programs, err := r.find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(l.dir, "rabbitmq-")
	if err != nil {
		return nil, err
	}
	var ports [3]string // of clients, of nodes, of the port mapper
	for i := range ports {
		host, err := address()
		if err != nil {
			return nil, err
		}
		_, ports[i], _ = net.SplitHostPort(host) // address made it
	}
	environ := []string{
		"HOME=" + dir, "ERL_EPMD_PORT=" + ports[2], "ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_NODENAME=peers@localhost", "RABBITMQ_DIST_PORT=" + ports[1],
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(dir, "rabbitmq.conf"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(dir, "plugins"),
		"RABBITMQ_MNESIA_BASE=" + dir, "RABBITMQ_LOG_BASE=" + dir, "RABBITMQ_PID_FILE=" + filepath.Join(dir, "pid"),
	}
	b := new(broker)
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	// Without a port mapper of ours Erlang starts one that stays.
	mapper, err := launch(dir, "epmd", environ, "epmd")
	if err != nil {
		return nil, err
	}
	b.processes = append(b.processes, mapper)
	if err := mapper.await(ctx, func() error { return reachable("127.0.0.1:" + ports[2]) }); err != nil {
		return nil, err
	}
	version, err := rabbitmqVersion(ctx, programs, environ)
	if err != nil {
		return nil, err
	}
	major, _ := strconv.Atoi(strings.Split(version, ".")[0]) // rabbitmqVersion has seen a number
	if err := r.configure(dir, ports[0], s); err != nil {
		return nil, err
	}
	b.version = "RabbitMQ " + version
	if major < 4 {
		b.urls = []string{"amqp091://guest:guest@127.0.0.1:" + ports[0]}
		b.address = func(queue string) string { return queue }
		if b.driver, err = l.clients(ctx); err != nil {
			return nil, err
		}
	} else {
		b.urls = []string{"amqp://guest:guest@127.0.0.1:" + ports[0]}
		b.address = func(queue string) string { return "/queues/" + queue }
		b.driver = l.driver
	}
	b.remaining = func(ctx context.Context) (map[string]int64, error) {
		c := exec.CommandContext(ctx, filepath.Join(programs, "rabbitmqctl"), "-n", "peers@localhost", "list_queues", "name", "messages", "--formatter", "json", "--silent")
		c.Env = append(os.Environ(), environ...)
		return listQueues(c.Output())
	}
	node, err := launch(dir, "rabbitmq", environ, filepath.Join(programs, "rabbitmq-server"))
	if err != nil {
		return nil, err
	}
	b.processes = append(b.processes, node)
	_, err = node.prints(ctx, "completed with ")
	return b, err
}

// configure writes a node's configuration.
func (r rabbitmq) configure(dir, port string, s setup) error {
	type queue struct {
		Name      string            `json:"name"`
		Vhost     string            `json:"vhost"`
		Durable   bool              `json:"durable"`
		Delete    bool              `json:"auto_delete"`
		Arguments map[string]string `json:"arguments"`
	}
	var queues []queue
	for _, q := range allQueues(s) {
		queues = append(queues, queue{q.name, "/", true, false, map[string]string{"x-queue-type": r.queues}})
	}
	definitions, err := json.Marshal(map[string]any{
		"vhosts": []any{map[string]string{"name": "/"}},
		"users":  []any{map[string]string{"name": "guest", "password": "guest", "tags": "administrator"}},
		"permissions": []any{map[string]string{
			"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*",
		}},
		"queues": queues,
	})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "definitions.json")
	for name, text := range map[string]string{
		path:                                string(definitions),
		filepath.Join(dir, "plugins"):       "[].",
		filepath.Join(dir, "rabbitmq.conf"): "listeners.tcp.1 = 127.0.0.1:" + port + "\nload_definitions = " + path + "\nlog.file.level = warning\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// reachable returns nil when a server listens at an address.
func reachable(address string) error {
	conn, err := net.Dial("tcp", address)
	if err == nil {
		err = conn.Close()
	}
	return err
}

func rabbitmqVersion(ctx context.Context, programs string, environ []string) (string, error) {
	c := exec.CommandContext(ctx, filepath.Join(programs, "rabbitmqctl"), "version")
	c.Env = append(os.Environ(), environ...)
	out, err := c.Output()
	version := regexp.MustCompile(`\d+\.\d+\.\d+`).Find(out)
	if err != nil || version == nil {
		return "", fmt.Errorf("ask RabbitMQ for its version: %w: %s", err, out)
	}
	return string(version), nil
}

// listQueues reads what rabbitmqctl lists.
func listQueues(out []byte, err error) (map[string]int64, error) {
	var queues []struct {
		Name     string
		Messages int64
	}
	if err == nil {
		err = json.Unmarshal(out, &queues)
	}
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w: %s", err, out)
	}
	held := map[string]int64{}
	for _, q := range queues {
		held[q.Name] = q.Messages
	}
	return held, nil
}
