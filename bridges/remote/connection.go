package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/amqp"
	"github.com/crosstown-mq/crosstown/core/fair"
)

const (
	// After idleTimeout without a heartbeat of the remote, the connection counts as broken.
	idleTimeout = 30 * time.Second
	linkTimeout = 15 * time.Second
	farewell    = time.Second
)

type connection struct {
	r       *Remote
	splice  *amqp.Splice
	conn    *goamqp.Conn
	session *goamqp.Session
	tag     atomic.Uint64

	policy, key string

	senderLinks sync.Map // by entity: a *senderLink

	cbs    *node // nil if the connection needs no tokens
	mu     sync.Mutex
	proven map[string]struct{} // entities for which the remote has accepted a token
}

func (r *Remote) connect(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	policy, key := r.o.Policy, r.o.Key
	if r.o.Access != nil {
		var err error
		if policy, key, err = r.o.Access(ctx); err != nil {
			return nil, err
		}
	}
	plain, err := r.o.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c := plain
	if r.o.TLS != nil {
		secured := tls.Client(plain, r.o.TLS)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = plain.Close()
			return nil, err
		}
		c = secured
	}
	login := goamqp.SASLTypeAnonymous()
	if r.o.User != "" {
		login = goamqp.SASLTypePlain(r.o.User, r.o.Password)
	}
	var memory *fair.Share // nil for a command-line tool, whose memory is not bounded
	if r.here.Memory != nil {
		memory = r.here.Memory.Share(nil)
		memory.Join(r.who())
	}
	splice := amqp.NewSplice(c, memory)
	conn, err := goamqp.NewConn(ctx, splice, &goamqp.ConnOptions{
		HostName: r.o.Host, IdleTimeout: cmp.Or(r.o.idle, idleTimeout), SASLType: login, ContainerID: "crosstown-" + r.o.Name,
	})
	if err != nil {
		_ = plain.Close()
		_ = splice.Close() // gives the splice's memory back
		return nil, err
	}
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	l := &connection{r: r, splice: splice, conn: conn, session: session, policy: policy, key: key}
	if policy != "" || r.o.Signature != "" {
		if err := l.openCBS(ctx); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("cannot authenticate through $cbs: %w", err)
		}
	}
	return l, nil
}

func (l *connection) close() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_ = l.session.Close(ctx) // the session may be broken already
	_ = l.conn.Close()
}

type senderLink struct {
	mu   sync.Mutex // held while the link is being attached
	link *goamqp.Sender
}

func (l *connection) sender(ctx context.Context, entity string) (*goamqp.Sender, error) {
	v, _ := l.senderLinks.LoadOrStore(entity, &senderLink{})
	o := v.(*senderLink)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.link != nil {
		return o.link, nil
	}
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	if err := l.prove(ctx, entity); err != nil {
		return nil, err
	}
	s, err := l.session.NewSender(ctx, entity, &goamqp.SenderOptions{
		SettlementMode:              goamqp.SenderSettleModeUnsettled.Ptr(),
		RequestedReceiverSettleMode: goamqp.ReceiverSettleModeFirst.Ptr(),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot attach a link to '%s': %w", entity, err)
	}
	o.link = s
	return s, nil
}

// drop closes a link that is broken, or on which answers do not arrive.
func (l *connection) drop(entity string, s *goamqp.Sender) {
	v, _ := l.senderLinks.Load(entity)
	o := v.(*senderLink)
	o.mu.Lock()
	if o.link == s {
		o.link = nil
	}
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_ = s.Close(ctx) // the link may have ended already
}

// suspect closes the connection if err says that the session of all links has ended, or that an
// answer is so late that the remote may be unreachable.
func (l *connection) suspect(err error) {
	if _, ok := errors.AsType[*goamqp.SessionError](err); ok || errors.Is(err, context.DeadlineExceeded) {
		_ = l.conn.Close() // serve records the error
	}
}

func (l *connection) receiver(ctx context.Context, entity string, within time.Duration, o *goamqp.ReceiverOptions) (*goamqp.Receiver, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := l.prove(ctx, entity); err != nil {
		return nil, err
	}
	o.Credit = -1
	o.RequestedSenderSettleMode = cmp.Or(o.RequestedSenderSettleMode, goamqp.SenderSettleModeUnsettled.Ptr())
	return l.session.NewReceiver(ctx, entity, o)
}

// CreditContext is the context for SendWithReceipt of go-amqp 1.7.0. When its Context ends, it ends
// a wait for credit, but not a write: if the link ended while a write is given up, the sender would
// wait forever. A write ends with the connection at the latest.
type CreditContext struct{ context.Context }

func (CreditContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

func (CreditContext) Err() error { return nil }

// send returns when the remote has accepted m.
func send(ctx context.Context, link *goamqp.Sender, m *goamqp.Message) error {
	receipt, err := link.SendWithReceipt(CreditContext{ctx}, m, nil)
	if err != nil {
		return err
	}
	state, err := receipt.Wait(ctx)
	if rejected, ok := state.(*goamqp.StateRejected); ok {
		if rejected.Error != nil {
			return rejected.Error
		}
		return errors.New("the remote rejected the message without a reason")
	}
	return err
}
