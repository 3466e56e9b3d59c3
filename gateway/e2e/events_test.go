package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/crosstown-mq/crosstown/core/auth"
)

// eventStream is a client of server-sent events.
type eventStream struct {
	*env
	lines *bufio.Scanner
	close func()
}

// event is one of them.
type event struct {
	name, id string
	data     struct {
		Text      string
		Code      string
		Broker    struct{ SequenceNumber int64 }
		Retriable bool
	}
}

// events opens a stream with the development policy.
func (e *env) events(path string, header http.Header) *eventStream {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), patience)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.gw.host+"/"+path, http.NoBody)
	if err != nil {
		e.Fatal(err)
	}
	maps.Copy(r.Header, header)
	r.Header.Set("Authorization", auth.SignSAS("http://"+e.gw.host+"/", devPolicy, devKey, time.Now().Add(time.Hour)))
	transport := &http.Transport{}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		e.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		e.Fatalf("got %s of type %s", answer.Status, answer.Header.Get("Content-Type"))
	}
	s := &eventStream{env: e, lines: bufio.NewScanner(answer.Body), close: func() {
		cancel()
		_ = answer.Body.Close() // nobody reads on
		transport.CloseIdleConnections()
	}}
	e.Cleanup(s.close)
	return s
}

// next waits for an event.
func (s *eventStream) next() event {
	s.Helper()
	var got event
	for s.lines.Scan() {
		field, v, _ := strings.Cut(s.lines.Text(), ": ")
		switch field {
		case "event":
			got.name = v
		case "id":
			got.id = v
		case "data":
			if err := json.Unmarshal([]byte(v), &got.data); err != nil {
				s.Fatalf("%s: %v", v, err)
			}
		case "":
			if got.name != "" {
				return got
			}
		}
	}
	s.Fatalf("the stream ends: %v", s.lines.Err())
	return event{}
}

func (s *eventStream) want(name, id, text string) {
	s.Helper()
	if got := s.next(); got.name != name || got.id != id || got.data.Text != text {
		s.Fatalf("got %+v, want %s %s with %q", got, name, id, text)
	}
}

var asText = http.Header{"Content-Type": {"text/plain"}}

func (e *env) postText(queue, body string) {
	e.Helper()
	e.wantHTTP(e.http(http.MethodPost, queue+"/messages", body, asText), http.StatusCreated)
}

func TestAStreamShowsAQueueAndFollowsIt(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		e.postText(queue, "a")
		s := e.events(queue+"/messages/stream", nil)
		s.want("message", "1", "a")
		e.postText(queue, "b")
		s.want("message", "2", "b")
		if n := e.runtime(queue).ActiveMessageCount; n != 2 {
			e.Errorf("%d messages are there, want both", n)
		}
		latest := e.events(queue+"/messages/stream?from=new", nil)
		e.postText(queue, "c")
		s.want("message", "3", "c")
		latest.want("message", "3", "c")
		if _, err := e.admin().DeleteQueue(e.ctx(), queue, nil); err != nil {
			e.Fatal(err)
		}
		if last := s.next(); last.name != "end" || last.data.Code != "not_found" || last.data.Retriable {
			e.Errorf("got %+v, want the end", last)
		}
	})
}

func TestAStreamTakesMessages(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(nil)
		e.postText(queue, "a")
		s := e.events(queue+"/messages/stream?mode=receiveanddelete", nil)
		s.want("message", "1", "a")
		e.postText(queue, "b")
		s.want("message", "2", "b")
		e.eventually("both are gone", func() bool { return e.runtime(queue).TotalMessageCount == 0 })
		s.close()
		e.eventually("the stream is closed", func() bool { // a message that is sent before may be lost with it
			e.postText(queue, "c")
			return e.runtime(queue).TotalMessageCount > 0
		})
	})
}

func TestAStreamOfPartitionsResumes(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue := e.queue(&admin.QueueProperties{EnablePartitioning: new(true)})
		bodies := strings.Fields("a b c d e f g h")
		for _, body := range bodies {
			e.postText(queue, body)
		}
		s := e.events(queue+"/messages/stream", nil)
		var got []string
		seen := ""
		for range 5 {
			m := s.next()
			got, seen = append(got, m.data.Text), m.id
		}
		s.close()
		if !strings.Contains(seen, ",") {
			e.Fatalf("the id %q is not of several partitions", seen)
		}
		e.postText(queue, "i")
		s = e.events(queue+"/messages/stream", http.Header{"Last-Event-Id": {seen}})
		for range 4 {
			got = append(got, s.next().data.Text)
		}
		slices.Sort(got)
		if want := append(bodies, "i"); !slices.Equal(got, want) {
			e.Errorf("got %q, want %q, each once", got, want)
		}
	})
}

func TestAPageReadsAStream(t *testing.T) {
	tell(t, func(e *env) {
		queue := e.queue(nil)
		token := auth.SignSAS("http://"+e.gw.host+"/"+queue, devPolicy, devKey, time.Now().Add(time.Hour))
		elsewhere := httptest.NewServer(http.NotFoundHandler())
		defer elsewhere.Close()
		e.browser("streampage", "STORY_QUEUE="+queue, "STORY_TOKEN="+token, "STORY_PAGE="+strings.Replace(elsewhere.URL, "127.0.0.1", "elsewhere.localhost", 1))
	}, "file/tcp")
}

func TestAPageOfAListedOriginUsesTheRESTRuntime(t *testing.T) {
	tell(t, func(e *env) {
		queue := e.queue(nil)
		token := auth.SignSAS("http://"+e.gw.host+"/"+queue, devPolicy, devKey, time.Now().Add(time.Hour))
		listed := httptest.NewServer(http.NotFoundHandler())
		defer listed.Close()
		e.browser("corspage", "STORY_QUEUE="+queue, "STORY_TOKEN="+token, "STORY_PAGE="+listed.URL)
	}, "file/tcp")
}
