package webhooks

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/fair"
)

func TestFailedProofsHaveARateOfTheirOwn(t *testing.T) {
	t.Parallel()
	const secret = "a-secret-of-the-sender"
	for _, scheme := range []Scheme{URL, GitHub, Stripe, Standard} {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			now, deliveries := time.Unix(1_700_000_000, 0), 0
			hook := Hook{Name: "h", Namespace: "ns", Entity: "q", Scheme: scheme, Keys: [][]byte{[]byte(secret)}, Tolerance: time.Minute}
			other := hook
			other.Name = "other"
			in := NewInbound(Options{
				Broker: newBroker(t), Hooks: []Hook{hook, other}, Budget: fair.New(0, nil, nil),
				Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
			})
			call := func(from, hook, key string) *httptest.ResponseRecorder {
				deliveries++
				body := fmt.Sprintf(`{"id":"evt_%d"}`, deliveries)
				r := httptest.NewRequest(http.MethodPost, Path+hook, strings.NewReader(body))
				r.RemoteAddr = from
				sign(scheme, r, []byte(key), now, body)
				w := httptest.NewRecorder()
				in.ServeHTTP(w, r)
				return w
			}
			want := func(what string, w *httptest.ResponseRecorder, status int) {
				t.Helper()
				if w.Code != status {
					t.Errorf("%s: got %d %s, want %d", what, w.Code, w.Body, status)
				}
			}
			const stranger, sender = "192.0.2.1:1000", "192.0.2.2:1000"
			want("the sender", call(sender, "h", secret), 202)
			// Each of these has its own rate, and uses it up.
			for _, from := range []string{stranger, sender, "[2001:db8:1:2::3]:5"} {
				for i := range failedAtOnce {
					want(fmt.Sprint("wrong proof ", i, " of ", from), call(from, "h", fmt.Sprint("a-secret-that-is-guessed-", i)), 401)
				}
			}
			for _, from := range []string{"192.0.2.1:1001", "[2001:db8:1:2:4::5]:6"} { // ports, and addresses of a network, are the same client
				for _, key := range []string{"a-secret-that-is-guessed", secret} { // also the right one, so that an answer tells nothing
					w := call(from, "H", key)
					want("one too many of "+from, w, 429)
					if w.Header().Get("Retry-After") != "1" || w.Header().Get("Connection") != "close" {
						t.Errorf("one too many: got %v", w.Header())
					}
				}
			}
			want("the sender, behind the address of those who fail", call(sender, "h", secret), 202)
			want("another address", call("192.0.2.3:1000", "h", secret), 202)
			want("another network", call("[2001:db8:1:3::3]:5", "h", secret), 202)
			want("another hook", call(stranger, "other", "a-secret-that-is-guessed"), 401)

			now = now.Add(time.Second)
			want("a second later", call(stranger, "h", "a-secret-that-is-guessed"), 401)
			want("the second in this second", call(stranger, "h", "a-secret-that-is-guessed"), 429)
			now = now.Add(time.Second)
			want("a sender whose secret was corrected", call(stranger, "h", secret), 202)
			want("its further deliveries", call(stranger, "h", secret), 202)

			now = now.Add(provenFor)
			for range failedAtOnce {
				want("wrong proofs, long after the right one", call(stranger, "h", "a-secret-that-is-guessed"), 401)
			}
			want("one too many, long after the right proof", call(stranger, "h", secret), 429)
		})
	}
}

func TestFailedProofsAreCountedForABoundedNumberOfAddresses(t *testing.T) {
	t.Parallel()
	in := NewInbound(Options{
		Broker: newBroker(t), Budget: fair.New(0, nil, nil), Logger: slog.New(slog.DiscardHandler),
		Hooks: []Hook{{Name: "h", Namespace: "ns", Entity: "q", Scheme: URL, Keys: [][]byte{[]byte("a-secret-of-the-sender")}}},
	})
	for i := range 2 * maxProvers {
		r := httptest.NewRequest(http.MethodPost, Path+"h?secret=a-secret-that-is-guessed", strings.NewReader("{}"))
		r.RemoteAddr = fmt.Sprintf("[2001:db8:%x::1]:5", i)
		w := httptest.NewRecorder()
		in.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Fatalf("address %d: got %d", i, w.Code)
		}
	}
	if n := in.proofs.of.Len(); n != maxProvers {
		t.Errorf("%d addresses are counted, want %d", n, maxProvers)
	}
}

func TestProofsAtOnceAreNoMoreThanAfterEachOther(t *testing.T) {
	t.Parallel()
	p := newProofs()
	now := time.Unix(1_700_000_000, 0)
	of := prover{hook: "h"}
	begun := func() (n int) {
		for range 200 {
			if p.begin(of, now) == 0 {
				n++
			}
		}
		return n
	}
	if n := begun(); n != failedAtOnce {
		t.Errorf("of 200 proofs at once %d are looked at, want %d", n, failedAtOnce)
	}
	p.untried(of)
	if n := begun(); n != 1 {
		t.Errorf("after one that the gateway did not look at, %d are looked at, want 1", n)
	}
	p.right(of, now)
	if n := begun(); n != 200 {
		t.Errorf("after a right one, %d of 200 are looked at", n)
	}
}

func TestTheIDOfADeliveryTakesNothingOfWhatWasSigned(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	key := []byte("a-secret-of-the-sender")
	// Signed were the id "a", the time and the body "1700000000.{}".
	r := httptest.NewRequest(http.MethodPost, Path+"h", nil)
	r.Header.Set(headerID, "a.1700000000")
	r.Header.Set(headerTimestamp, "1700000000")
	r.Header.Set(headerSignature, Sign(key, "a", now, []byte("1700000000.{}")))
	if err := Standard.verify(r, []byte("{}"), [][]byte{key}, now, time.Minute); err == nil {
		t.Error("another id and body than those that were signed are taken")
	}
}
