// Rogue is a plugin that does what plugins should not do. Its first argument selects the behaviour.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

func main() {
	manner := ""
	if len(os.Args) > 1 {
		manner = os.Args[1]
	}
	switch manner {
	case "crash-on-start":
		fmt.Fprintln(os.Stderr, "no configuration")
		os.Exit(3)
	case "crash-once": // until the file exists
		if _, err := os.Stat(os.Args[2]); err != nil {
			_ = os.WriteFile(os.Args[2], nil, 0o600)
			os.Exit(3)
		}
	case "mute":
		hang()
	case "chatter":
		fmt.Println("Hello, I am not a plugin.")
		hang()
	case "version-2":
		fmt.Println("1|2|unix|/nowhere|grpc")
		hang()
	case "long-line":
		fmt.Println(string(bytes.Repeat([]byte("x"), 1<<20)))
		hang()
	case "garbage-count", "garbage-id", "garbage-action", "garbage-bytes", "says-version-2":
		serveGarbage(manner)
	case "flood":
		go flood()
	case "panic-json": // makes go-plugin's own reader panic
		fmt.Fprintln(os.Stderr, `{"@message": 5, "@level": [], "@timestamp": {}}`)
	case "child":
		sleep := exec.Command("sleep", "1000")
		if err := sleep.Start(); err != nil {
			panic(err)
		}
		_ = os.WriteFile(os.Args[2], []byte(strconv.Itoa(sleep.Process.Pid)), 0o600)
	case "loud":
		fmt.Fprintln(os.Stderr, "what it writes")
		go func() {
			time.Sleep(50 * time.Millisecond) // usually it serves by then, but that does not matter
			slog.Warn("what it logs", "kind", "loud")
			fmt.Println("what it prints")
		}()
	}
	if manner == "pass" || manner == "pass-body" {
		sdk.Serve(sdk.Plugin{
			Name:      "pass",
			OnSend:    func(context.Context, *sdk.Message) (sdk.Verdict, error) { return sdk.Accept, nil },
			NeedsBody: manner == "pass-body",
		})
	}
	sdk.Serve(sdk.Plugin{
		Name:         "rogue",
		Version:      os.Getenv("ROGUE_VERSION"),
		OnSend:       judge,
		NeedsBody:    manner == "body",
		ContentTypes: []string{"text/upper"},
		Decode: func(_ context.Context, _ string, payload []byte) (any, error) {
			if bytes.ContainsAny(payload, "!") {
				return nil, fmt.Errorf("%q has a '!'", payload)
			}
			return string(bytes.ToLower(payload)), nil
		},
		Encode: func(_ context.Context, _ string, v any) ([]byte, error) {
			return bytes.ToUpper(fmt.Append(nil, v)), nil
		},
	})
}

// hang does nothing until the process is killed. With select {}, the runtime would end a program
// without cgo because of a deadlock.
func hang() { <-time.After(math.MaxInt64) }

// judge does what the message's properties request. It answers with the message's id, by which a
// caller recognizes its own answer.
func judge(ctx context.Context, m *sdk.Message) (sdk.Verdict, error) {
	if ms, ok := m.Properties["sleep"].(int64); ok {
		time.Sleep(time.Duration(ms) * time.Millisecond) // a slow plugin
	}
	switch m.Properties["do"] {
	case "crash":
		os.Exit(7)
	case "panic":
		panic("asked to")
	case "fail":
		return sdk.Accept, fmt.Errorf("asked to")
	case "hang":
		hang()
	case "drop":
		return sdk.Drop("asked to"), nil
	case "dead-letter":
		return sdk.DeadLetter("Asked", "it was asked to"), nil
	case "refuse":
		return sdk.Refuse("Asked", "it was asked to"), nil
	case "to":
		return sdk.To("a", "b"), nil
	case "also":
		return sdk.Also("c"), nil
	case "remove":
		delete(m.Properties, "do")
	case "leak":
		if f, err := os.Open(os.DevNull); err == nil {
			leaked = append(leaked, f)
		}
	case "where":
		dir, _ := os.Getwd()
		m.Properties["dir"] = dir
		m.Properties["env"] = fmt.Sprint(len(os.Environ()))
		m.Properties["home"] = os.Getenv("HOME")
		m.Properties["given"] = os.Getenv("GIVEN")
		m.Properties["pid"] = os.Getpid()
	}
	m.Properties["echo"] = m.MessageID
	m.Properties["body"] = string(m.Body)
	return sdk.Accept, nil
}

var leaked []*os.File

func flood() {
	line := bytes.Repeat([]byte("flood "), 100)
	line = append(line, '\n')
	for {
		_, _ = os.Stderr.Write(line)
	}
}

// garbage violates the contract.
type garbage struct {
	pb.UnimplementedPluginServer
	manner string
}

func (g garbage) Describe(context.Context, *pb.DescribeRequest) (*pb.Description, error) {
	d := &pb.Description{Name: "garbage", Contracts: []uint32{1}, Router: &pb.RouterDescription{}}
	if g.manner == "says-version-2" {
		d.Contracts = []uint32{2, 3}
	}
	return d, nil
}

func (g garbage) Work(stream grpc.BidiStreamingServer[pb.Requests, pb.Responses]) error {
	for {
		in, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		out := &pb.Responses{}
		for _, r := range in.Requests {
			a := &pb.Response{Id: r.Id}
			if q := r.GetRoute(); q != nil {
				switch g.manner {
				case "garbage-count":
					a.Answer = &pb.Response_Routed{Routed: &pb.Routed{Verdicts: make([]*pb.Verdict, len(q.Messages)+1)}}
				case "garbage-id":
					a.Id += 1 << 40
				case "garbage-action":
					a.Answer = &pb.Response_Routed{Routed: &pb.Routed{Verdicts: []*pb.Verdict{{Action: 77}}}}
				case "garbage-bytes":
					if err := stream.SendMsg(&pb.Failure{Kind: 1, Text: "\x01\x02\x03"}); err != nil {
						return err
					}
				}
			}
			out.Responses = append(out.Responses, a)
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

func serveGarbage(manner string) {
	path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "garbage.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	s := grpc.NewServer()
	h := health.NewServer()
	h.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s, h)
	pb.RegisterPluginServer(s, garbage{manner: manner})
	fmt.Printf("1|1|unix|%s|grpc\n", path)
	if err := s.Serve(ln); err != nil {
		panic(err)
	}
	os.Exit(0)
}
