package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/redisstore/redistest"
)

const (
	// largest is the size of the largest body: that of the largest message, but for its properties.
	largest = int64(core.MaxMessageSizeKB<<10 - 1<<10)
	// largePatience bounds the exchange of such a message on a slow machine.
	largePatience = 2 * time.Minute
)

// memoryOf reads a value, in bytes, of a process' status: VmRSS is the resident memory, VmHWM its peak.
func memoryOf(t *testing.T, g *gateway, name string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("no %s in %s", name, status)
	return 0
}

// largeBody is random enough to tell a part that is missing, doubled or in the wrong place.
func largeBody() []byte {
	body := make([]byte, largest)
	state := uint64(1)
	for i := range body {
		state = state*6364136223846793005 + 1442695040888963407
		body[i] = byte(state >> 56)
	}
	return body
}

// TestTheLargestMessageTakesThreeTimesItsSize sends and receives a message of 100 MB over each protocol, on a gateway
// of its own whose peak of resident memory is read.
func TestTheLargestMessageTakesThreeTimesItsSize(t *testing.T) {
	if testing.Short() {
		t.Skip("100 MB, six times")
	}
	program := binary
	if raceEnabled { // the race detector's own memory is a multiple
		program = filepath.Join(t.TempDir(), "crosstown")
		if out, err := exec.Command("go", "build", "-o", program, "github.com/crosstown-mq/crosstown/gateway").CombinedOutput(); err != nil {
			t.Fatalf("build the gateway: %v\n%s", err, out)
		}
	}
	body := largeBody()
	for _, engine := range []string{"memory", "redis"} {
		for protocol, exchange := range map[string]func(*env, string, []byte) []byte{
			"amqp": largeOverAMQP, "https": largeOverHTTPS, "websocket": largeOverWebSocket,
		} {
			t.Run(engine+"/"+protocol, func(t *testing.T) { // one at a time: they take much memory
				store := engine
				if engine == "redis" {
					store = redistest.Start(t, redistest.Options{}).URL()
				}
				e := &env{T: t, gw: ownOf(t, program, store), plain: true}
				queue := e.queue(&admin.QueueProperties{MaxMessageSizeInKilobytes: to.Ptr(int64(core.MaxMessageSizeKB))})
				e.send(queue, "small")
				e.complete(e.receiver(queue), e.one(e.receiver(queue)))
				before := int64(0)
				if runtime.GOOS == "linux" {
					before = memoryOf(t, e.gw, "VmRSS")
				}
				if got := exchange(e, queue, body); !bytes.Equal(got, body) {
					t.Errorf("%d bytes were sent, and %d others received", len(body), len(got))
				}
				if runtime.GOOS != "linux" {
					return
				}
				taken := memoryOf(t, e.gw, "VmHWM") - before
				t.Logf("at most %d MB more than before, %.2f times the message; %d MB afterwards", taken/1e6, float64(taken)/float64(largest), (memoryOf(t, e.gw, "VmRSS")-before)/1e6)
				if taken > 3*largest {
					t.Errorf("the gateway took %d MB for a message of %d MB", taken/1e6, largest/1e6)
				}
			})
		}
	}
}

func largeOverAMQP(e *env, queue string, body []byte) []byte {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), largePatience)
	defer cancel()
	if err := e.sender(queue).SendMessage(ctx, &azservicebus.Message{Body: body}, nil); err != nil {
		e.Fatalf("send: %v", err)
	}
	r := e.receiver(queue)
	ms, err := r.ReceiveMessages(ctx, 1, nil)
	if err != nil || len(ms) != 1 {
		e.Fatalf("receive: %d messages, %v", len(ms), err)
	}
	e.complete(r, ms...)
	return ms[0].Body
}

func largeOverHTTPS(e *env, queue string, body []byte) []byte {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), largePatience)
	defer cancel()
	exchange := func(method, path string, body []byte, want int) []byte {
		r, err := http.NewRequestWithContext(ctx, method, "http://"+e.gw.host+"/"+path, bytes.NewReader(body))
		if err != nil {
			e.Fatal(err)
		}
		r.Header.Set("Authorization", auth.SignSAS("http://"+e.gw.host+"/", devPolicy, devKey, time.Now().Add(time.Hour)))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			e.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }() // it is read to its end
		got, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != want {
			e.Fatalf("%s %s: got %s, %.200s, %v", method, path, answer.Status, got, err)
		}
		return got
	}
	exchange(http.MethodPost, queue+"/messages", body, http.StatusCreated)
	return exchange(http.MethodDelete, queue+"/messages/head", nil, http.StatusOK)
}

func largeOverWebSocket(e *env, queue string, body []byte) []byte {
	e.Helper()
	n := e.native()
	if err := n.conn.SetReadDeadline(time.Now().Add(largePatience)); err != nil {
		e.Fatal(err)
	}
	ask := func(request, answer string) []byte {
		if err := n.conn.WriteMessage(websocket.TextMessage, []byte(request)); err != nil {
			e.Fatal(err)
		}
		for {
			switch _, frame, err := n.conn.ReadMessage(); {
			case err != nil || bytes.Contains(frame[:min(len(frame), 100)], []byte(`"error"`)):
				e.Fatalf("%.100s: got %.300s, %v", request, frame, err)
			case bytes.Contains(frame[:min(len(frame), 100)], []byte(answer)):
				return frame
			}
		}
	}
	ask(`{"op":"send","id":2,"entity":"`+queue+`","messages":[{"binary":"`+base64.StdEncoding.EncodeToString(body)+`"}]}`, `"ok"`)
	frame := ask(`{"op":"feed","id":3,"entity":"`+queue+`","feed":1,"mode":"receiveAndDelete","credit":1,"bodies":"binary"}`, `"deliver"`)
	_, frame, _ = bytes.Cut(frame, []byte(`"binary":"`))
	got, err := base64.StdEncoding.AppendDecode(nil, frame[:max(0, bytes.IndexByte(frame, '"'))])
	if err != nil {
		e.Fatal(err)
	}
	return got
}
