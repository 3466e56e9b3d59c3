package redis_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	redisstore "github.com/crosstown-mq/crosstown/core/store/redis"
	"github.com/crosstown-mq/crosstown/core/storetest"
)

// testdata/kept.aof is the append-only file, without an RDB preamble, of a Redis that version 8fcb296
// filled by storetest.Keep.
func TestStoreOfVersion8fcb296IsRead(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"single": server(t).URL(), "cluster": clusterURL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := redisstore.Options{Prefix: prefix(), Clock: storetest.NewClock().Now}
			load(t, url, o.Prefix, "testdata/kept.aof")
			storetest.WantKept(t, open(t, url, o))
		})
	}
}

func TestStoreOfAnotherFormatIsRefused(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"2": "the store has format 2, but this version reads only formats 3 to 5: use another Redis", "6": "a later version of Crosstown wrote the store in format 6, but this version reads format 5: start the later version"} {
		o := redisstore.Options{Prefix: prefix()}
		if err := server(t).Client().Set(t.Context(), o.Prefix+"{ct}f", format, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := redisstore.Open(t.Context(), server(t).URL(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("format %s: got %v, want %q", format, err, want)
		}
	}
}

// load runs the commands of an append-only file, on keys below a prefix.
func load(t *testing.T, url, prefix, name string) {
	t.Helper()
	var rdb redis.UniversalClient = server(t).Client()
	if url == clusterURL(t) {
		nodes := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{strings.TrimPrefix(cluster.NodeURL(0), "redis://")}})
		defer func() { _ = nodes.Close() }()
		rdb = nodes
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	for r := bufio.NewReader(file); ; {
		command, err := readCommand(r)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if verb := command[0]; verb == "SELECT" || verb == "PEXPIREAT" { // by the clock of the day on which it was written
			continue
		}
		command[1] = prefix + command[1].(string)
		if err := rdb.Do(t.Context(), command...).Err(); err != nil {
			t.Fatalf("%v %q: %v", command[0], command[1], err)
		}
	}
}

// readCommand reads a command as clients send it to Redis.
func readCommand(r *bufio.Reader) ([]any, error) {
	number := func(format string) (n int, err error) {
		line, err := r.ReadString('\n')
		if err == nil {
			_, err = fmt.Sscanf(line, format, &n)
		}
		return n, err
	}
	n, err := number("*%d\r\n")
	command := make([]any, n)
	for i := range command {
		size, err := number("$%d\r\n")
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		command[i] = string(text[:size])
	}
	return command, err
}
