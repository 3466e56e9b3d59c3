package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/auth"
)

func TestAnUnknownEntityIsNotFound(t *testing.T) {
	everywhere(t, func(e *env) {
		const name = "no-such-queue"
		c := e.client()
		err := e.senderOf(c, name).SendMessage(e.ctx(), &azservicebus.Message{}, nil)
		e.wantCode(err, azservicebus.CodeNotFound)
		r, err := c.NewReceiverForQueue(name, nil)
		if err != nil {
			e.Fatal(err)
		}
		_, err = r.ReceiveMessages(e.ctx(), 1, nil)
		e.wantCode(err, azservicebus.CodeNotFound)

		// The text is what the JavaScript SDK recognises a missing entity by.
		_, err = e.amqp().NewSender(e.ctx(), name, nil)
		e.wantCondition(err, amqp.ErrCondNotFound)
		if text := err.Error(); !strings.Contains(text, "The messaging entity '") || !strings.Contains(text, "' could not be found") {
			e.Errorf("got text %s", text)
		}
		a := e.http(http.MethodPost, name+"/messages", "x", nil)
		if a.status != http.StatusNotFound || !strings.Contains(a.body, "could not be found") {
			e.Errorf("HTTP: got %d %s", a.status, a.body)
		}
		if got, err := e.admin().GetQueue(e.ctx(), name, nil); err != nil || got != nil {
			e.Errorf("management: got %v, error %v; want neither", got, err)
		}
	})
}

func TestAWrongKeyIsUnauthorized(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		for _, who := range [][2]string{{devPolicy, "wrong"}, {"nobody", devKey}} {
			err := e.senderOf(e.clientAs(who[0], who[1]), queue).SendMessage(e.ctx(), &azservicebus.Message{}, nil)
			e.wantCode(err, azservicebus.CodeUnauthorizedAccess)
			_, err = e.adminAs(who[0], who[1]).GetQueue(e.ctx(), queue, nil)
			e.wantStatus(err, http.StatusUnauthorized)
		}
		o := &amqp.ConnOptions{SASLType: amqp.SASLTypePlain(devPolicy, "wrong")}
		if conn, err := amqp.Dial(e.ctx(), "amqp://"+e.gw.host, o); err == nil {
			_ = conn.Close()
			e.Error("SASL PLAIN with a wrong key succeeded")
		}
	})
}

func TestTokensAreJudgedByTimeAndAudience(t *testing.T) {
	everywhere(t, func(e *env) {
		queue, other := e.queue(nil), e.queue(nil)
		hour := time.Now().Add(time.Hour)
		sign := func(path string, expires time.Time) string {
			return auth.SignSAS("sb://"+e.gw.host+"/"+path, devPolicy, devKey, expires)
		}
		for _, tt := range []struct {
			name, token string
			status      int
			text        string
		}{
			{"none", "", 401, "MissingToken"},
			{"garbage", "SharedAccessSignature x", 401, ""},
			{"expired", sign(queue, time.Now().Add(-time.Hour)), 401, "ExpiredToken"},
			{"tampered", sign(queue, hour) + "x", 401, ""},
			{"other entity", sign(other, hour), 401, ""},
			{"prefix of the name", sign(queue[:len(queue)-1], hour), 401, ""},
			{"this entity", sign(queue, hour), 201, ""},
			{"this entity in capitals", sign(strings.ToUpper(queue), hour), 201, ""},
			{"namespace", sign("", hour), 201, ""},
		} {
			a := e.httpAs(tt.token, http.MethodPost, queue+"/messages", "x", nil)
			if a.status != tt.status || !strings.Contains(a.body, tt.text) {
				e.Errorf("%s: got %d %s, want %d %s", tt.name, a.status, a.body, tt.status, tt.text)
			}
		}

		// The same expired token over AMQP.
		expired := "Endpoint=sb://" + e.gw.host + ";SharedAccessSignature=" + sign(queue, time.Now().Add(-time.Hour))
		if e.plain {
			expired += ";UseDevelopmentEmulator=true"
		}
		o := &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}, TLSConfig: e.tls()}
		c, err := azservicebus.NewClientFromConnectionString(expired, o)
		if err != nil {
			e.Fatal(err)
		}
		defer func() { _ = c.Close(e.ctx()) }()
		err = e.senderOf(c, queue).SendMessage(e.ctx(), &azservicebus.Message{}, nil)
		e.wantCode(err, azservicebus.CodeUnauthorizedAccess)
		if !strings.Contains(err.Error(), "ExpiredToken") {
			e.Errorf("got %v, want ExpiredToken named", err)
		}
	})
}

func TestLinksEndWithTheirToken(t *testing.T) {
	onEachEngine(t, func(e *env) {
		queue, other := e.queue(nil), e.queue(nil)
		e.post(e.sender(queue), &azservicebus.Message{})
		// linked opens both links with a token of this life. It fails if the token ends meanwhile.
		linked := func(life time.Duration) (s *azservicebus.Sender, r *azservicebus.Receiver, m *azservicebus.ReceivedMessage, err error) {
			short := auth.SignSAS("sb://"+e.gw.host, devPolicy, devKey, time.Now().Add(life))
			c, err := azservicebus.NewClientFromConnectionString(
				"Endpoint=sb://"+e.gw.host+";SharedAccessSignature="+short+";UseDevelopmentEmulator=true",
				&azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}})
			if err != nil {
				e.Fatal(err)
			}
			e.Cleanup(func() { _ = c.Close(context.Background()) })
			if s, err = c.NewSender(other, nil); err == nil {
				err = s.SendMessage(e.ctx(), &azservicebus.Message{}, nil)
			}
			if err != nil {
				return nil, nil, nil, err
			}
			if r, err = c.NewReceiverForQueue(queue, nil); err != nil {
				return nil, nil, nil, err
			}
			ms, err := r.ReceiveMessages(e.ctx(), 1, nil)
			if err != nil {
				return nil, nil, nil, err
			}
			return s, r, ms[0], nil
		}
		s, r, m, err := linked(6 * time.Second)
		for life := 18 * time.Second; err != nil && life < 3*time.Minute; life *= 3 { // a busy machine needs longer
			s, r, m, err = linked(life)
		}
		if err != nil {
			e.Fatal(err)
		}
		_, err = r.ReceiveMessages(e.ctx(), 1, nil) // waits until the token ends
		e.wantCode(err, azservicebus.CodeUnauthorizedAccess)
		e.wantCode(s.SendMessage(e.ctx(), &azservicebus.Message{}, nil), azservicebus.CodeUnauthorizedAccess)
		e.completeByToken(queue, m)
	})
}

func TestMissingClaimsAreNamed(t *testing.T) {
	everywhere(t, func(e *env) {
		queue := e.queue(nil)
		sender, listener := e.clientAs(sendOnly, sendOnlyKey), e.clientAs(listenOnly, listenKey)
		e.post(e.senderOf(sender, queue), &azservicebus.Message{Body: []byte("x")})
		err := e.senderOf(listener, queue).SendMessage(e.ctx(), &azservicebus.Message{}, nil)
		e.wantCode(err, azservicebus.CodeUnauthorizedAccess)
		if !strings.Contains(err.Error(), "'Send' claim(s) are required") {
			e.Errorf("got %v, want the Send claim named", err)
		}
		r, err := sender.NewReceiverForQueue(queue, nil)
		if err != nil {
			e.Fatal(err)
		}
		_, err = r.ReceiveMessages(e.ctx(), 1, nil)
		e.wantCode(err, azservicebus.CodeUnauthorizedAccess)
		if !strings.Contains(err.Error(), "'Listen' claim(s) are required") {
			e.Errorf("got %v, want the Listen claim named", err)
		}
		r, err = listener.NewReceiverForQueue(queue, nil)
		if err != nil {
			e.Fatal(err)
		}
		e.complete(r, e.one(r))
		for _, who := range [][2]string{{sendOnly, sendOnlyKey}, {listenOnly, listenKey}} {
			_, err := e.adminAs(who[0], who[1]).GetQueue(e.ctx(), queue, nil)
			e.wantStatus(err, http.StatusUnauthorized)
			if !strings.Contains(err.Error(), "Manage") {
				e.Errorf("got %v, want the Manage claim named", err)
			}
		}
	})
}
