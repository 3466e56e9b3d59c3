package host

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/crosstown-mq/crosstown/core"
	pb "github.com/crosstown-mq/crosstown/plugins/proto/v1"
)

// script is a stream whose other end is a test.
type script struct {
	sent   chan *pb.Requests
	got    chan gotFrame
	closed chan struct{} // by CloseSend
}

func newScript() *script {
	return &script{sent: make(chan *pb.Requests, 100), got: make(chan gotFrame), closed: make(chan struct{})}
}

func (s *script) SendMsg(m any) error {
	r := &pb.Requests{}
	if err := proto.Unmarshal(m.(sentFrame), r); err != nil {
		return err
	}
	s.sent <- r
	return nil
}

func (s *script) RecvMsg(m any) error {
	f, ok := <-s.got
	if !ok {
		return io.EOF
	}
	*m.(*gotFrame) = f
	return nil
}

func (s *script) CloseSend() error { close(s.closed); return nil }

// answer answers requests, each with a failure that says its id.
func (s *script) answer(t *testing.T, requests ...*pb.Request) {
	t.Helper()
	var f gotFrame
	for _, r := range requests {
		b, err := proto.Marshal(&pb.Response{Id: r.Id, Answer: &pb.Response_Failure{Failure: &pb.Failure{Text: strconv.FormatUint(r.Id, 10)}}})
		if err != nil {
			t.Fatal(err)
		}
		f = append(f, piece{r.Id, b})
	}
	s.got <- f
}

// frames are the sizes of the frames that were sent.
func (s *script) frames() (sizes []int, all [][]*pb.Request) {
	for {
		select {
		case r := <-s.sent:
			sizes, all = append(sizes, len(r.Requests)), append(all, r.Requests)
		default:
			return sizes, all
		}
	}
}

func equal(t *testing.T, what string, got []int, want ...int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
}

func TestTheFirstLeaveAtOnceAndTheOthersRideTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream := newScript()
		s := newSession(stream, Options{Batch: 6}.withDefaults())
		var asked sync.WaitGroup
		ask := func() {
			asked.Go(func() {
				if _, err := s.ask(t.Context(), &pb.Request{}, 1); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for range 20 {
			ask()
		}
		sizes, first := stream.frames()
		equal(t, "before any answer", sizes, 1, 1, 1, 1) // maxFrames
		stream.answer(t, first[2]...)
		synctest.Wait()
		sizes, second := stream.frames()
		equal(t, "after an answer", sizes, 6) // Batch
		// The first answer of a frame makes room: the others may take their time.
		stream.answer(t, second[0][0])
		synctest.Wait()
		sizes, third := stream.frames()
		equal(t, "after the first of six answers", sizes, 6)
		rest := append(append(second[0][1:], third[0]...), append(first[0], append(first[1], first[3]...)...)...)
		stream.answer(t, rest...)
		synctest.Wait()
		sizes, fourth := stream.frames()
		equal(t, "after all answers", sizes, 4)
		stream.answer(t, fourth[0]...)
		asked.Wait()
		close(stream.got)
		synctest.Wait()
	})
}

func TestDrainingAnswersRequestsThenSaysBye(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream := newScript()
		s := newSession(stream, Options{}.withDefaults())
		answered := make(chan error, 1)
		go func() {
			_, err := s.ask(t.Context(), &pb.Request{}, 1)
			answered <- err
		}()
		synctest.Wait()
		drained := make(chan struct{})
		go func() { s.drain(t.Context()); close(drained) }()
		synctest.Wait()
		if _, err := s.ask(t.Context(), &pb.Request{}, 1); !errors.Is(err, errNotTaken) {
			t.Errorf("asked while it drains: got %v", err)
		}
		select {
		case <-stream.closed:
			t.Error("closed before the answer came")
		default:
		}
		_, frames := stream.frames()
		stream.answer(t, frames[0]...)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		<-drained
		<-stream.closed
		close(stream.got)
		synctest.Wait()
	})
}

func TestWhoGivesUpMakesRoomAndIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream := newScript()
		s := newSession(stream, Options{Queue: 2, CallTimeout: time.Second}.withDefaults())
		give := func(within time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err := s.ask(ctx, &pb.Request{}, 2)
			return err
		}
		late := make(chan error, 1)
		go func() { late <- give(time.Millisecond) }()
		synctest.Wait()
		if err := give(time.Second); !errors.Is(err, errFull) {
			t.Errorf("asked beyond the queue: got %v", err)
		}
		if err := <-late; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		if n := s.waiting(); n != 0 {
			t.Errorf("%d messages wait for nobody", n)
		}
		_, frames := stream.frames()
		stream.answer(t, frames[0]...) // too late: it is nobody's
		// Short deadlines of callers do not make it hung; the full one does.
		for range 10 {
			if err := give(time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the deadline", err)
			}
		}
		for range missLimit {
			_ = give(time.Second)
		}
		if err := s.cause(); !errors.Is(err, errHung) {
			t.Errorf("got %v, want that it hangs", err)
		}
		close(stream.got)
		synctest.Wait()
	})
}

func TestThePauseBetweenLaunchesGrowsUntilItIsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newSupervised(Options{
			Name: "p", BackoffMin: 100 * time.Millisecond, BackoffMax: 500 * time.Millisecond, Failures: 6, Off: time.Minute,
		}, slog.New(slog.DiscardHandler))
		var launches []time.Time
		p.launch = func(context.Context) (*instance, error) {
			launches = append(launches, time.Now())
			return nil, errors.New("no")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.run(ctx); close(done) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := p.snapshot(); s.Condition != Off || s.Problem != "no" {
			t.Errorf("got %+v, want it off", s)
		}
		if _, err := p.acquire(ctx); !errors.Is(err, core.Busy) {
			t.Errorf("acquire: got %v, want Busy", err)
		}
		cancel()
		<-done
		for n, want := range []time.Duration{100, 200, 400, 500, 500, 60_000, 60_000} {
			want *= time.Millisecond
			got := launches[n+1].Sub(launches[n])
			if got < want*3/4 || got > want*5/4+1 {
				t.Errorf("pause %d: got %v, want about %v", n+1, got, want)
			}
		}
		if s := p.snapshot(); s.Condition != Stopped {
			t.Errorf("got %+v, want it stopped", s)
		}
	})
}

// FuzzAnswer shows that whatever a plugin answers is refused, or can be used.
func FuzzAnswer(f *testing.F) {
	for _, v := range []*pb.Verdict{
		{},
		{Action: 2, Reason: "r", Remove: []string{"a"}, Routes: []string{"q", "t/Subscriptions/s"}},
		{Set: []*pb.Property{{Key: "a", Value: &pb.Value{Kind: &pb.Value_UbyteValue{UbyteValue: 7}}}}},
	} {
		b, err := proto.Marshal(&pb.Routed{Verdicts: []*pb.Verdict{v}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var a pb.Routed
		if proto.Unmarshal(b, &a) != nil {
			return
		}
		verdicts, err := verdictsOf(&a, len(a.Verdicts))
		if err != nil {
			return
		}
		for _, v := range verdicts {
			n := 0
			for range v.Revise(core.Properties{}).All() {
				n++
			}
			if n != v.Set.Len() {
				t.Errorf("%d of %d properties can be read", n, v.Set.Len())
			}
		}
	})
}
