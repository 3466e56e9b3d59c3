package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/vmihailenco/msgpack/v5"

	bridge "github.com/crosstown-mq/crosstown/bridges/websocket"
	"github.com/crosstown-mq/crosstown/core/auth"
)

type wsConn struct {
	ws      *websocket.Conn
	kind    int
	encode  func(any) ([]byte, error)
	decode  func([]byte, any) error
	writing sync.Mutex
	reading sync.WaitGroup

	mu      sync.Mutex
	last    int64
	answers map[int64]chan wsFrame
	feeds   map[int64]chan wsMessage
	ended   error // why the connection ended, or nil
}

type wsFrame struct {
	Op          string         `json:"op" msgpack:"op"`
	ID          int64          `json:"id,omitempty" msgpack:"id,omitempty"`
	Token       string         `json:"token,omitempty" msgpack:"token,omitempty"`
	Entity      string         `json:"entity,omitempty" msgpack:"entity,omitempty"`
	Feed        int64          `json:"feed,omitempty" msgpack:"feed,omitempty"`
	Mode        string         `json:"mode,omitempty" msgpack:"mode,omitempty"`
	Credit      int            `json:"credit,omitempty" msgpack:"credit,omitempty"`
	Messages    []wsMessage    `json:"messages,omitempty" msgpack:"messages,omitempty"`
	Settlements []wsSettlement `json:"settlements,omitempty" msgpack:"settlements,omitempty"`
	Results     []*wsProblem   `json:"results,omitempty" msgpack:"results,omitempty"`
	Code        string         `json:"code,omitempty" msgpack:"code,omitempty"`
	Text        string         `json:"text,omitempty" msgpack:"text,omitempty"`
}

type wsMessage struct {
	Broker *wsBroker `json:"broker,omitempty" msgpack:"broker,omitempty"`
	Binary []byte    `json:"binary" msgpack:"binary"`
}

type wsBroker struct {
	LockToken string `msgpack:"LockToken"`
}

type wsSettlement struct {
	LockToken string `json:"lockToken" msgpack:"lockToken"`
	Outcome   string `json:"outcome" msgpack:"outcome"`
}

type wsProblem struct {
	Code string `json:"code" msgpack:"code"`
	Text string `json:"text" msgpack:"text"`
}

func (p *wsProblem) Error() string { return p.Code + ": " + p.Text }

func (t *target) dialWebSocket(ctx context.Context) (Connection, error) {
	c := &wsConn{
		kind: websocket.TextMessage, encode: json.Marshal, decode: json.Unmarshal,
		answers: make(map[int64]chan wsFrame), feeds: make(map[int64]chan wsMessage),
	}
	protocol := "crosstown.v1.json"
	if t.pack {
		protocol, c.kind, c.encode, c.decode = "crosstown.v1.msgpack", websocket.BinaryMessage, msgpack.Marshal, msgpack.Unmarshal
	}
	d := websocket.Dialer{Subprotocols: []string{protocol}}
	if strings.HasPrefix(t.address, "wss:") {
		d.TLSClientConfig = t.tlsConfig()
	}
	ws, _, err := d.DialContext(ctx, t.address+bridge.Path, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w", t.address, err)
	}
	c.ws = ws
	c.reading.Go(c.read)
	token := t.token
	if token == "" {
		token = auth.SignSAS(t.audience(), t.policy, t.key, time.Now().Add(tokenLife))
	}
	if _, err := c.ask(ctx, wsFrame{Op: "auth", Token: token}); err != nil {
		_ = c.Close() // the refusal is more useful
		return nil, fmt.Errorf("cannot sign in at %s: %w", t.address, err)
	}
	return c, nil
}

func (c *wsConn) Close() error {
	err := c.ws.Close()
	c.reading.Wait()
	return err
}

func (c *wsConn) read() {
	for {
		_, data, err := c.ws.ReadMessage()
		var f wsFrame
		if err == nil {
			err = c.decode(data, &f)
		}
		if err == nil && (f.Op == "ended" || f.Op == "bye") {
			err = fmt.Errorf("the gateway ended a feed or the connection: %s: %s", f.Op, f.Text)
		}
		if err != nil {
			c.end(err)
			return
		}
		c.mu.Lock()
		answer, feed := c.answers[f.ID], c.feeds[f.Feed]
		delete(c.answers, f.ID)
		c.mu.Unlock()
		switch {
		case answer != nil:
			answer <- f
		case feed != nil:
			for _, m := range f.Messages {
				feed <- m // never blocks, because the channel has room for all credit
			}
		}
	}
}

func (c *wsConn) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = err
	for _, answer := range c.answers {
		close(answer)
	}
	for _, feed := range c.feeds {
		close(feed)
	}
	c.answers, c.feeds = nil, nil
}

func (c *wsConn) request(f wsFrame) (<-chan wsFrame, error) {
	answer := make(chan wsFrame, 1)
	c.mu.Lock()
	if c.ended != nil {
		defer c.mu.Unlock()
		return nil, c.ended
	}
	c.last++
	f.ID = c.last
	c.answers[f.ID] = answer
	c.mu.Unlock()
	data, err := c.encode(&f)
	if err != nil {
		return nil, err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	return answer, c.ws.WriteMessage(c.kind, data)
}

func (c *wsConn) await(ctx context.Context, answer <-chan wsFrame) (wsFrame, error) {
	select {
	case f, ok := <-answer:
		switch {
		case !ok:
			c.mu.Lock()
			defer c.mu.Unlock()
			return f, c.ended
		case f.Op == "error":
			return f, &wsProblem{f.Code, f.Text}
		}
		for _, p := range f.Results {
			if p != nil {
				return f, p
			}
		}
		return f, nil
	case <-ctx.Done():
		return wsFrame{}, ctx.Err()
	}
}

func (c *wsConn) ask(ctx context.Context, f wsFrame) (wsFrame, error) {
	answer, err := c.request(f)
	if err != nil {
		return f, err
	}
	return c.await(ctx, answer)
}

func (c *wsConn) OpenSender(_ context.Context, entity string) (SenderLink, error) {
	return wsSender{c, entity}, nil
}

type wsSender struct {
	conn   *wsConn
	entity string
}

func (s wsSender) Send(_ context.Context, payload []byte) (wait func(context.Context) error, err error) {
	answer, err := s.conn.request(wsFrame{Op: "send", Entity: s.entity, Messages: []wsMessage{{Binary: payload}}})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := s.conn.await(ctx, answer)
		return err
	}, nil
}

func (c *wsConn) OpenReceiver(ctx context.Context, entity string, o ReceiveOptions) (ReceiverLink, error) {
	feed := make(chan wsMessage, 2*o.Credit)
	c.mu.Lock()
	if c.ended != nil {
		defer c.mu.Unlock()
		return nil, c.ended
	}
	number := int64(len(c.feeds) + 1)
	c.feeds[number] = feed
	c.mu.Unlock()
	mode := "peekLock"
	if o.Settle == SettleNone {
		mode = "receiveAndDelete"
	}
	if _, err := c.ask(ctx, wsFrame{Op: "feed", Feed: number, Entity: entity, Mode: mode}); err != nil {
		return nil, fmt.Errorf("cannot open a feed of %s: %w", entity, err)
	}
	return &wsReceiver{c, number, feed, o.Settle}, nil
}

type wsReceiver struct {
	conn   *wsConn
	number int64
	feed   <-chan wsMessage
	settle Settle
}

// IssueCredit gives credit. It does not wait for the answer, which is always ok.
func (r *wsReceiver) IssueCredit(n int) error {
	_, err := r.conn.request(wsFrame{Op: "credit", Feed: r.number, Credit: n})
	return err
}

var errEnded = errors.New("the connection has ended")

func (r *wsReceiver) Receive(ctx context.Context) (Delivery, error) {
	select {
	case m, ok := <-r.feed:
		if !ok {
			return nil, errEnded
		}
		return wsDelivery{r, m}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type wsDelivery struct {
	from    *wsReceiver
	message wsMessage
}

func (d wsDelivery) Payload() []byte { return d.message.Binary }

func (d wsDelivery) Accept(ctx context.Context) error { return d.end(ctx, "complete") }

func (d wsDelivery) Release(ctx context.Context) error { return d.end(ctx, "release") }

func (d wsDelivery) end(ctx context.Context, outcome string) error {
	if d.from.settle == SettleNone {
		return nil
	}
	answer, err := d.from.conn.request(wsFrame{
		Op: "settle", Feed: d.from.number, Settlements: []wsSettlement{{d.message.Broker.LockToken, outcome}},
	})
	if err != nil || d.from.settle == SettleFirst {
		return err
	}
	_, err = d.from.conn.await(ctx, answer)
	return err
}
