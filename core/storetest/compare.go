package storetest

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/value"
)

type differences struct{ strings.Builder }

func (d *differences) add(field string, same bool, got, want any) {
	if !same {
		fmt.Fprintf(&d.Builder, "%s: got %v, want %v; ", field, got, want)
	}
}

// diffDelivery lists the fields that differ. Of a lock token, it compares only the sequence number,
// and whether the token is zero.
func diffDelivery(got, want core.Delivery) string {
	var d differences
	diffMessage(&d, got.Message, want.Message)
	g, w := got.BrokerProperties, want.BrokerProperties
	d.add("SequenceNumber", g.SequenceNumber == w.SequenceNumber, g.SequenceNumber, w.SequenceNumber)
	d.add("EnqueuedSequenceNumber", g.EnqueuedSequenceNumber == w.EnqueuedSequenceNumber, g.EnqueuedSequenceNumber, w.EnqueuedSequenceNumber)
	d.times("EnqueuedTime", g.EnqueuedTime, w.EnqueuedTime)
	d.times("ExpiresAt", g.ExpiresAt, w.ExpiresAt)
	d.add("DeliveryCount", g.DeliveryCount == w.DeliveryCount, g.DeliveryCount, w.DeliveryCount)
	d.add("LockToken", g.LockToken.SequenceNumber() == w.LockToken.SequenceNumber() && g.LockToken.IsZero() == w.LockToken.IsZero(),
		g.LockToken, w.LockToken)
	d.times("LockedUntil", g.LockedUntil, w.LockedUntil)
	d.add("State", g.State == w.State, g.State, w.State)
	d.add("DeadLetterSource", g.DeadLetterSource == w.DeadLetterSource, g.DeadLetterSource, w.DeadLetterSource)
	d.times("DeadLetteredTime", g.DeadLetteredTime, w.DeadLetteredTime)
	d.add("Partitioned", g.Partitioned == w.Partitioned, g.Partitioned, w.Partitioned)
	return d.String()
}

func diffMessage(d *differences, g, w *core.Message) {
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"MessageID", g.MessageID, w.MessageID},
		{"CorrelationID", g.CorrelationID, w.CorrelationID},
		{"To", g.To, w.To},
		{"Subject", g.Subject, w.Subject},
		{"ReplyTo", g.ReplyTo, w.ReplyTo},
		{"ContentType", g.ContentType, w.ContentType},
		{"ContentEncoding", g.ContentEncoding, w.ContentEncoding},
		{"SessionID", g.SessionID, w.SessionID},
		{"ReplyToSessionID", g.ReplyToSessionID, w.ReplyToSessionID},
		{"PartitionKey", g.PartitionKey, w.PartitionKey},
		{"ViaPartitionKey", g.ViaPartitionKey, w.ViaPartitionKey},
		{"GroupSequence", g.GroupSequence, w.GroupSequence},
		{"TimeToLive", g.TimeToLive, w.TimeToLive},
		{"WasScheduled", g.WasScheduled, w.WasScheduled},
		{"EmptyText", g.EmptyText, w.EmptyText},
		{"Durable", g.Durable, w.Durable},
		{"FirstAcquirer", g.FirstAcquirer, w.FirstAcquirer},
		{"Priority", g.Priority, w.Priority},
		{"Body.Kind", g.Body.Kind, w.Body.Kind},
	} {
		d.add(f.name, f.got == f.want, f.got, f.want)
	}
	d.times("CreationTime", g.CreationTime, w.CreationTime)
	d.times("AbsoluteExpiryTime", g.AbsoluteExpiryTime, w.AbsoluteExpiryTime)
	d.times("ScheduledEnqueueTime", g.ScheduledEnqueueTime, w.ScheduledEnqueueTime)
	d.octets("UserID", g.UserID, w.UserID)
	d.octets("Body", g.Body.Bytes, w.Body.Bytes)
	d.octets("Footer", g.Footer, w.Footer)
	d.octets("DeliveryAnnotations", g.DeliveryAnnotations.Encoded(), w.DeliveryAnnotations.Encoded())
	d.properties("Annotations", g.Annotations, w.Annotations)
	d.properties("Properties", g.Properties, w.Properties)
	d.add("Transit", transitOf(g) == transitOf(w), transitOf(g), transitOf(w))
}

func transitOf(m *core.Message) core.Transit {
	if m.Transit == nil {
		return core.Transit{}
	}
	return *m.Transit
}

func (d *differences) times(field string, g, w time.Time) {
	d.add(field, g.Equal(w) && g.IsZero() == w.IsZero(), g, w)
}

func (d *differences) octets(field string, g, w []byte) {
	d.add(field, bytes.Equal(g, w), fmt.Sprintf("%q", g), fmt.Sprintf("%q", w))
}

func (d *differences) properties(field string, g, w core.Properties) {
	same := g.Len() == w.Len()
	next, stop := iter.Pull2(w.All())
	defer stop()
	for gotKey, got := range g.All() {
		wantKey, want, ok := next()
		same = same && ok && gotKey == wantKey && value.Equal(got, want)
	}
	d.add(field, same, render(g), render(w))
}

func render(ps core.Properties) string {
	var b strings.Builder
	for k, v := range ps.All() {
		fmt.Fprintf(&b, "%s=%T(%v) ", k, v, v)
	}
	return "{" + strings.TrimSpace(b.String()) + "}"
}
