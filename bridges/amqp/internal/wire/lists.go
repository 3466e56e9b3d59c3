package wire

import (
	"cmp"
	"math"

	"github.com/crosstown-mq/crosstown/core/value"
)

// Each method named fields reads or writes the fields of a list, in the specification's order.

// perform reads or writes a performative. It calls methods by the type of p, because a call through
// an interface would allocate both p and l.
func (l *list) perform(p Performative) {
	switch p := p.(type) {
	case *Open:
		p.fields(l)
	case *Begin:
		p.fields(l)
	case *Attach:
		p.fields(l)
	case *Flow:
		p.fields(l)
	case *Transfer:
		p.fields(l)
	case *Disposition:
		p.fields(l)
	case *Detach:
		p.fields(l)
	case *End:
		p.fields(l)
	case *Close:
		p.fields(l)
	case *SASLMechanisms:
		p.fields(l)
	case *SASLInit:
		p.fields(l)
	case *SASLChallenge:
		p.fields(l)
	case *SASLResponse:
		p.fields(l)
	case *SASLOutcome:
		p.fields(l)
	}
}

func (p *Open) fields(l *list) {
	l.begin(DescOpen)
	must(l, "container-id", &p.ContainerID, asText)
	l.text("hostname", &p.Hostname)
	opt(l, "max-frame-size", &p.MaxFrameSize, asUint32)
	opt(l, "channel-max", &p.ChannelMax, asUint16)
	opt(l, "idle-time-out", &p.IdleTimeOut, asUint32)
	l.symbols("outgoing-locales", &p.OutgoingLocales)
	l.symbols("incoming-locales", &p.IncomingLocales)
	l.symbols("offered-capabilities", &p.OfferedCapabilities)
	l.symbols("desired-capabilities", &p.DesiredCapabilities)
	l.mapping("properties", &p.Properties)
	if !l.writes && p.MaxFrameSize.Or(DefaultMaxFrameSize) < MinMaxFrameSize {
		l.invalid("max-frame-size", "is %d: it must be at least %d", p.MaxFrameSize.V, MinMaxFrameSize)
	}
}

func (p *Begin) fields(l *list) {
	l.begin(DescBegin)
	opt(l, "remote-channel", &p.RemoteChannel, asUint16)
	must(l, "next-outgoing-id", &p.NextOutgoingID, asUint32)
	must(l, "incoming-window", &p.IncomingWindow, asUint32)
	must(l, "outgoing-window", &p.OutgoingWindow, asUint32)
	opt(l, "handle-max", &p.HandleMax, asUint32)
	l.symbols("offered-capabilities", &p.OfferedCapabilities)
	l.symbols("desired-capabilities", &p.DesiredCapabilities)
	l.mapping("properties", &p.Properties)
}

func (p *Attach) fields(l *list) {
	l.begin(DescAttach)
	must(l, "name", &p.Name, asText)
	must(l, "handle", &p.Handle, asUint32)
	must(l, "role", (*bool)(&p.Role), asBool)
	upTo(l, "snd-settle-mode", &p.SndSettleMode, SenderMixed)
	upTo(l, "rcv-settle-mode", &p.RcvSettleMode, ReceiverSecond)
	l.source(&p.Source)
	l.target(p)
	var unsettled []byte
	l.rawMap("unsettled", &unsettled)
	l.flag("incomplete-unsettled", &p.IncompleteUnsettled)
	opt(l, "initial-delivery-count", &p.InitialDeliveryCount, asUint32)
	opt(l, "max-message-size", &p.MaxMessageSize, asUint64)
	l.symbols("offered-capabilities", &p.OfferedCapabilities)
	l.symbols("desired-capabilities", &p.DesiredCapabilities)
	l.mapping("properties", &p.Properties)
}

func (l *list) source(s **Source) {
	in, ok := l.open("source", DescSource, *s != nil)
	switch {
	case !ok:
		return
	case in.of != DescSource:
		l.invalid("source", "is %s", in.of)
		return
	case *s == nil:
		*s = &Source{}
	}
	opt(&in, "address", &(*s).Address, asText)
	opt(&in, "durable", &(*s).Durable, asUint32)
	in.symbol("expiry-policy", &(*s).ExpiryPolicy)
	opt(&in, "timeout", &(*s).Timeout, asUint32)
	in.flag("dynamic", &(*s).Dynamic)
	in.mapping("dynamic-node-properties", &(*s).DynamicNodeProperties)
	in.symbol("distribution-mode", &(*s).DistributionMode)
	in.mapping("filter", &(*s).Filter)
	in.state("default-outcome", &(*s).DefaultOutcome)
	in.symbols("outcomes", &(*s).Outcomes)
	in.symbols("capabilities", &(*s).Capabilities)
	l.close(&in)
}

// target reads or writes the target of an attach, or its coordinator.
func (l *list) target(p *Attach) {
	of := DescTarget
	if p.Coordinator != nil {
		of = DescCoordinator
	}
	in, ok := l.open("target", of, p.Target != nil || p.Coordinator != nil)
	if !ok {
		return
	}
	switch in.of {
	case DescTarget:
		p.Target = cmp.Or(p.Target, &Target{})
		opt(&in, "address", &p.Target.Address, asText)
		opt(&in, "durable", &p.Target.Durable, asUint32)
		in.symbol("expiry-policy", &p.Target.ExpiryPolicy)
		opt(&in, "timeout", &p.Target.Timeout, asUint32)
		in.flag("dynamic", &p.Target.Dynamic)
		in.mapping("dynamic-node-properties", &p.Target.DynamicNodeProperties)
		in.symbols("capabilities", &p.Target.Capabilities)
	case DescCoordinator:
		p.Coordinator = cmp.Or(p.Coordinator, &Coordinator{})
		in.symbols("capabilities", &p.Coordinator.Capabilities)
	default:
		l.invalid("target", "is %s", in.of)
		return
	}
	l.close(&in)
}

func (p *Flow) fields(l *list) {
	l.begin(DescFlow)
	opt(l, "next-incoming-id", &p.NextIncomingID, asUint32)
	must(l, "incoming-window", &p.IncomingWindow, asUint32)
	must(l, "next-outgoing-id", &p.NextOutgoingID, asUint32)
	must(l, "outgoing-window", &p.OutgoingWindow, asUint32)
	opt(l, "handle", &p.Handle, asUint32)
	opt(l, "delivery-count", &p.DeliveryCount, asUint32)
	opt(l, "link-credit", &p.LinkCredit, asUint32)
	opt(l, "available", &p.Available, asUint32)
	l.flag("drain", &p.Drain)
	l.flag("echo", &p.Echo)
	l.rawMap("properties", &p.Properties)
}

func (p *Transfer) fields(l *list) {
	l.begin(DescTransfer)
	must(l, "handle", &p.Handle, asUint32)
	opt(l, "delivery-id", &p.DeliveryID, asUint32)
	l.binary("delivery-tag", &p.DeliveryTag, MaxDeliveryTag)
	opt(l, "message-format", &p.MessageFormat, asUint32)
	opt(l, "settled", &p.Settled, asBool)
	l.flag("more", &p.More)
	upTo(l, "rcv-settle-mode", &p.RcvSettleMode, ReceiverSecond)
	l.state("state", &p.State)
	l.flag("resume", &p.Resume)
	l.flag("aborted", &p.Aborted)
	l.flag("batchable", &p.Batchable)
}

func (p *Disposition) fields(l *list) {
	l.begin(DescDisposition)
	must(l, "role", (*bool)(&p.Role), asBool)
	must(l, "first", &p.First, asUint32)
	opt(l, "last", &p.Last, asUint32)
	l.flag("settled", &p.Settled)
	l.state("state", &p.State)
	l.flag("batchable", &p.Batchable)
}

func (p *Detach) fields(l *list) {
	l.begin(DescDetach)
	must(l, "handle", &p.Handle, asUint32)
	l.flag("closed", &p.Closed)
	l.error("error", &p.Error)
}

func (p *End) fields(l *list) {
	l.begin(DescEnd)
	l.error("error", &p.Error)
}

func (p *Close) fields(l *list) {
	l.begin(DescClose)
	l.error("error", &p.Error)
}

func (p *SASLMechanisms) fields(l *list) {
	l.begin(DescSASLMechanisms)
	if l.symbols("sasl-server-mechanisms", &p.Mechanisms); p.Mechanisms == nil {
		l.invalid("sasl-server-mechanisms", "is mandatory")
	}
}

func (p *SASLInit) fields(l *list) {
	l.begin(DescSASLInit)
	must(l, "mechanism", &p.Mechanism, asSymbol)
	l.binary("initial-response", &p.InitialResponse, math.MaxInt)
	l.text("hostname", &p.Hostname)
}

func (p *SASLChallenge) fields(l *list) {
	l.begin(DescSASLChallenge)
	must(l, "challenge", &p.Challenge, asBinary)
}

func (p *SASLResponse) fields(l *list) {
	l.begin(DescSASLResponse)
	must(l, "response", &p.Response, asBinary)
}

func (p *SASLOutcome) fields(l *list) {
	l.begin(DescSASLOutcome)
	code := value.Opt[SASLCode]{V: p.Code, Set: l.writes}
	if upTo(l, "code", &code, SASLSysTemp); !code.Set {
		l.invalid("code", "is mandatory")
	}
	p.Code = code.V
	l.binary("additional-data", &p.AdditionalData, math.MaxInt)
}

func (l *list) error(name string, e **Error) {
	in, ok := l.open(name, DescError, *e != nil)
	switch {
	case !ok:
		return
	case in.of != DescError:
		l.invalid(name, "is %s, not an error", in.of)
		return
	case *e == nil:
		*e = &Error{}
	}
	must(&in, "condition", &(*e).Condition, asSymbol)
	in.text("description", &(*e).Description)
	in.mapping("info", &(*e).Info)
	l.close(&in)
}

func (l *list) state(name string, s *DeliveryState) {
	var of Descriptor
	if *s != nil {
		of = (*s).deliveryState()
	}
	in, ok := l.open(name, of, *s != nil)
	switch {
	case !ok:
		return
	case in.of == DescTransactionalState && l.of == in.of:
		l.invalid(name, "is a transactional state itself")
		return
	case l.writes:
		in.writeState(*s)
	default:
		*s = in.readState()
	}
	l.close(&in)
}

func (l *list) writeState(s DeliveryState) {
	switch s := s.(type) {
	case Rejected:
		s.fields(l)
	case Modified:
		s.fields(l)
	case Received:
		s.fields(l)
	case Declared:
		s.fields(l)
	case TransactionalState:
		s.fields(l)
	}
}

func (l *list) readState() DeliveryState {
	switch l.of {
	case DescAccepted:
		return Accepted{}
	case DescReleased:
		return Released{}
	case DescRejected:
		var s Rejected
		s.fields(l)
		return s
	case DescModified:
		var s Modified
		s.fields(l)
		return s
	case DescReceived:
		var s Received
		s.fields(l)
		return s
	case DescDeclared:
		var s Declared
		s.fields(l)
		return s
	case DescTransactionalState:
		var s TransactionalState
		s.fields(l)
		return s
	}
	l.invalid("0", "is not in a known delivery state")
	return nil
}

func (s *Rejected) fields(l *list) { l.error("error", &s.Error) }

func (s *Modified) fields(l *list) {
	opt(l, "delivery-failed", &s.DeliveryFailed, asBool)
	opt(l, "undeliverable-here", &s.UndeliverableHere, asBool)
	l.rawMap("message-annotations", &s.MessageAnnotations)
}

func (s *Received) fields(l *list) {
	must(l, "section-number", &s.SectionNumber, asUint32)
	must(l, "section-offset", &s.SectionOffset, asUint64)
}

func (s *Declared) fields(l *list) { l.txnID(&s.TxnID) }

func (s *TransactionalState) fields(l *list) {
	l.txnID(&s.TxnID)
	l.state("outcome", &s.Outcome)
}

func (r *Declare) fields(l *list) { l.raw("global-id", &r.GlobalID) }

func (r *Discharge) fields(l *list) {
	l.txnID(&r.TxnID)
	l.flag("fail", &r.Fail)
}

func (l *list) txnID(id *[]byte) {
	if l.binary("txn-id", id, MaxTxnID); *id == nil {
		l.invalid("txn-id", "is mandatory")
	}
}
