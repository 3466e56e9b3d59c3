package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"
	"github.com/gorilla/websocket"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
	"github.com/crosstown-mq/crosstown/internal/variants"
)

const (
	// largest is the size of the largest body: that of the largest message, but for its properties.
	largest = int64(core.MaxMessageSizeKB<<10 - 1<<10)
	// largePatience bounds the exchange of such a message on a slow machine.
	largePatience = 2 * patience
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
	withoutRace(t)
	body := largeBody()
	for _, engine := range []string{"memory", "redis"} {
		for protocol, exchange := range map[string]func(*env, string, []byte) []byte{
			"amqp": largeOverAMQP, "https": largeOverHTTPS, "websocket": largeOverWebSocket,
			"events": largeEvent("receiveanddelete"), "peeked events": largeEvent("peek"),
		} {
			t.Run(engine+"/"+protocol, func(t *testing.T) { exchangeLarge(t, engine, body, exchange) })
		}
	}
}

// TestDeliveriesTakeThreeTimesTheirSizeWhateverTheyHold receives large messages over a WebSocket in JSON: what has a longer
// form there than others, and several one after the other.
func TestDeliveriesTakeThreeTimesTheirSizeWhateverTheyHold(t *testing.T) {
	withoutRace(t)
	controls := bytes.Repeat([]byte{1}, int(largest)) // six times as long in JSON
	for _, engine := range []string{"memory", "redis"} {
		for form, send := range map[string]func(e *env, queue string){
			"binary": func(e *env, queue string) { postLarge(e, queue, "application/octet-stream", controls) },
			"text":   func(e *env, queue string) { postLarge(e, queue, "text/plain", controls) },
			"value": func(e *env, queue string) {
				e.sendLarge(queue, &amqp.Message{Value: amqpList(controls)})
			},
			"sections": func(e *env, queue string) {
				e.sendLarge(queue, &amqp.Message{Data: slices.Collect(slices.Chunk(controls, 1_000_000))})
			},
			"behind small ones": func(e *env, queue string) {
				e.send(queue, "1", "2", "3")
				postLarge(e, queue, "application/octet-stream", controls)
			},
		} {
			t.Run(engine+"/"+form, func(t *testing.T) {
				exchangeLarge(t, engine, nil, func(e *env, queue string, _ []byte) []byte {
					send(e, queue)
					n := e.native()
					if err := n.conn.SetReadDeadline(time.Now().Add(largePatience)); err != nil {
						e.Fatal(err)
					}
					feed := `{"op":"feed","id":3,"entity":"` + queue + `","feed":1,"mode":"receiveAndDelete","credit":9}`
					if err := n.conn.WriteMessage(websocket.TextMessage, []byte(feed)); err != nil {
						e.Fatal(err)
					}
					for {
						_, frame, err := n.conn.ReadMessage()
						if err != nil || bytes.Contains(frame[:min(len(frame), 100)], []byte(`"error"`)) {
							e.Fatalf("got %.300s, %v", frame, err)
						}
						if int64(len(frame)) > largest {
							return nil
						}
					}
				})
			})
		}
	}
}

// amqpList is a list that holds the text as one of its elements.
func amqpList(text []byte) []any { return []any{"a", string(text), int64(1)} }

func (e *env) sendLarge(queue string, m *amqp.Message) {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), largePatience)
	defer cancel()
	s, err := e.amqp().NewSender(ctx, queue, nil)
	if err == nil {
		err = s.Send(ctx, m, nil)
	}
	if err != nil {
		e.Fatal(err)
	}
}

// withoutRace skips a test of memory, which make verify runs by itself: it sends 100 MB many times, and
// the race detector takes several times the memory.
func withoutRace(t *testing.T) {
	t.Helper()
	if raceEnabled || !variants.All() {
		t.Skip("run by make verify: E2E_ALL=1 go test -run ThreeTimes ./gateway/e2e")
	}
}

// exchangeLarge has a large message sent and received at a gateway of its own, and compares the most memory that the
// gateway has taken with the size of the message. Tests do so one after the other: they take much memory themselves.
func exchangeLarge(t *testing.T, engine string, body []byte, exchange func(*env, string, []byte) []byte) {
	t.Helper()
	store := engine
	if engine == "redis" {
		store = redistest.Start(t, redistest.Options{}).URL()
	}
	e := &env{T: t, gw: own(t, store), plain: true}
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

// largeRequest makes a request that may take long.
func largeRequest(e *env, method, path, contentType string, body []byte, want int) *http.Response {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), largePatience)
	e.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://"+e.gw.host+"/"+path, bytes.NewReader(body))
	if err != nil {
		e.Fatal(err)
	}
	r.Header.Set("Authorization", auth.SignSAS("http://"+e.gw.host+"/", devPolicy, devKey, time.Now().Add(time.Hour)))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = answer.Body.Close() }) // it is read as far as it matters
	if answer.StatusCode != want {
		e.Fatalf("%s %s: got %s", method, path, answer.Status)
	}
	return answer
}

func postLarge(e *env, queue, contentType string, body []byte) {
	e.Helper()
	largeRequest(e, http.MethodPost, queue+"/messages", contentType, body, http.StatusCreated)
}

func largeOverHTTPS(e *env, queue string, body []byte) []byte {
	e.Helper()
	postLarge(e, queue, "", body)
	got, err := io.ReadAll(largeRequest(e, http.MethodDelete, queue+"/messages/head", "", nil, http.StatusOK).Body)
	if err != nil {
		e.Fatal(err)
	}
	return got
}

// largeEvent receives by a stream of server-sent events.
func largeEvent(mode string) func(e *env, queue string, body []byte) []byte {
	return func(e *env, queue string, body []byte) []byte {
		e.Helper()
		postLarge(e, queue, "", body)
		lines := bufio.NewReader(largeRequest(e, http.MethodGet, queue+"/messages/stream?bodies=binary&mode="+mode, "", nil, http.StatusOK).Body)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				e.Fatalf("%.100s, %v", line, err)
			}
			if bytes.HasPrefix(line, []byte("data: ")) {
				return binaryOf(e, line)
			}
		}
	}
}

// binaryOf is the binary body in the JSON of a message.
func binaryOf(e *env, text []byte) []byte {
	e.Helper()
	_, text, _ = bytes.Cut(text, []byte(`"binary":"`))
	got, err := base64.StdEncoding.AppendDecode(nil, text[:max(0, bytes.IndexByte(text, '"'))])
	if err != nil {
		e.Fatal(err)
	}
	return got
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
	return binaryOf(e, frame)
}
