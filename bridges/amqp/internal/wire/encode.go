package wire

import (
	"errors"

	"github.com/crosstown-mq/crosstown/core/value"
)

func appendPerformative(dst []byte, p Performative) ([]byte, error) {
	switch p := p.(type) {
	case *Transfer:
		return appendTransfer(dst, p)
	case *Disposition:
		return appendDisposition(dst, p)
	case *Flow:
		return appendFlow(dst, p), nil
	case *Open:
		return appendOpen(dst, p)
	case *Begin:
		return appendBegin(dst, p)
	case *Attach:
		return appendAttach(dst, p)
	case *Detach:
		l := openList(dst, DescDetach)
		put(&l, p.Handle, value.AppendUint32)
		l.flag(p.Closed)
		l.error(p.Error)
		return l.close(), l.err
	case *End:
		l := openList(dst, DescEnd)
		l.error(p.Error)
		return l.close(), l.err
	case *Close:
		l := openList(dst, DescClose)
		l.error(p.Error)
		return l.close(), l.err
	default:
		return appendSASL(dst, p)
	}
}

func appendSASL(dst []byte, p Performative) ([]byte, error) {
	switch p := p.(type) {
	case *SASLMechanisms:
		l := openList(dst, DescSASLMechanisms)
		l.any(value.ArrayOf(p.Mechanisms))
		return l.close(), l.err
	case *SASLInit:
		l := openList(dst, DescSASLInit)
		put(&l, p.Mechanism, value.AppendSymbol)
		l.binary(p.InitialResponse)
		l.text(p.Hostname)
		return l.close(), l.err
	case *SASLChallenge:
		l := openList(dst, DescSASLChallenge)
		put(&l, p.Challenge, value.AppendBinary)
		return l.close(), l.err
	case *SASLResponse:
		l := openList(dst, DescSASLResponse)
		put(&l, p.Response, value.AppendBinary)
		return l.close(), l.err
	case *SASLOutcome:
		l := openList(dst, DescSASLOutcome)
		put(&l, uint8(p.Code), value.AppendUint8)
		l.binary(p.AdditionalData)
		return l.close(), l.err
	}
	return dst, errors.New("cannot encode a frame whose performative is missing or of an unknown type")
}

func appendOpen(dst []byte, p *Open) ([]byte, error) {
	l := openList(dst, DescOpen)
	put(&l, p.ContainerID, value.AppendString)
	l.text(p.Hostname)
	l.uint32(p.MaxFrameSize)
	putOpt(&l, p.ChannelMax, value.AppendUint16)
	l.uint32(p.IdleTimeOut)
	l.symbols(p.OutgoingLocales)
	l.symbols(p.IncomingLocales)
	l.symbols(p.OfferedCapabilities)
	l.symbols(p.DesiredCapabilities)
	l.mapping(p.Properties)
	return l.close(), l.err
}

func appendBegin(dst []byte, p *Begin) ([]byte, error) {
	l := openList(dst, DescBegin)
	putOpt(&l, p.RemoteChannel, value.AppendUint16)
	put(&l, p.NextOutgoingID, value.AppendUint32)
	put(&l, p.IncomingWindow, value.AppendUint32)
	put(&l, p.OutgoingWindow, value.AppendUint32)
	l.uint32(p.HandleMax)
	l.symbols(p.OfferedCapabilities)
	l.symbols(p.DesiredCapabilities)
	l.mapping(p.Properties)
	return l.close(), l.err
}

func appendAttach(dst []byte, p *Attach) ([]byte, error) {
	l := openList(dst, DescAttach)
	put(&l, p.Name, value.AppendString)
	put(&l, p.Handle, value.AppendUint32)
	put(&l, bool(p.Role), value.AppendBool)
	putOpt(&l, value.Opt[uint8]{V: uint8(p.SndSettleMode.V), Set: p.SndSettleMode.Set}, value.AppendUint8)
	putOpt(&l, value.Opt[uint8]{V: uint8(p.RcvSettleMode.V), Set: p.RcvSettleMode.Set}, value.AppendUint8)
	if p.Source == nil {
		l.null()
	} else {
		l.n++
		l.take(appendSource(l.dst, p.Source))
	}
	switch {
	case p.Coordinator != nil:
		l.n++
		k := openList(l.dst, DescCoordinator)
		k.symbols(p.Coordinator.Capabilities)
		l.take(k.close(), k.err)
	case p.Target != nil:
		l.n++
		l.take(appendTarget(l.dst, p.Target))
	default:
		l.null()
	}
	l.null() // unsettled
	l.flag(p.IncompleteUnsettled)
	l.uint32(p.InitialDeliveryCount)
	putOpt(&l, p.MaxMessageSize, value.AppendUint64)
	l.symbols(p.OfferedCapabilities)
	l.symbols(p.DesiredCapabilities)
	l.mapping(p.Properties)
	return l.close(), l.err
}

func appendSource(dst []byte, s *Source) ([]byte, error) {
	l := openList(dst, DescSource)
	putOpt(&l, s.Address, value.AppendString)
	l.uint32(s.Durable)
	l.symbol(s.ExpiryPolicy)
	l.uint32(s.Timeout)
	l.flag(s.Dynamic)
	l.mapping(s.DynamicNodeProperties)
	l.symbol(s.DistributionMode)
	l.mapping(s.Filter)
	l.state(s.DefaultOutcome)
	l.symbols(s.Outcomes)
	l.symbols(s.Capabilities)
	return l.close(), l.err
}

func appendTarget(dst []byte, t *Target) ([]byte, error) {
	l := openList(dst, DescTarget)
	putOpt(&l, t.Address, value.AppendString)
	l.uint32(t.Durable)
	l.symbol(t.ExpiryPolicy)
	l.uint32(t.Timeout)
	l.flag(t.Dynamic)
	l.mapping(t.DynamicNodeProperties)
	l.symbols(t.Capabilities)
	return l.close(), l.err
}

func appendFlow(dst []byte, p *Flow) []byte {
	l := openList(dst, DescFlow)
	l.uint32(p.NextIncomingID)
	put(&l, p.IncomingWindow, value.AppendUint32)
	put(&l, p.NextOutgoingID, value.AppendUint32)
	put(&l, p.OutgoingWindow, value.AppendUint32)
	l.uint32(p.Handle)
	l.uint32(p.DeliveryCount)
	l.uint32(p.LinkCredit)
	l.uint32(p.Available)
	l.flag(p.Drain)
	l.flag(p.Echo)
	l.raw(p.Properties)
	return l.close()
}

func appendTransfer(dst []byte, p *Transfer) ([]byte, error) {
	l := openList(dst, DescTransfer)
	put(&l, p.Handle, value.AppendUint32)
	l.uint32(p.DeliveryID)
	l.binary(p.DeliveryTag)
	l.uint32(p.MessageFormat)
	putOpt(&l, p.Settled, value.AppendBool)
	l.flag(p.More)
	putOpt(&l, value.Opt[uint8]{V: uint8(p.RcvSettleMode.V), Set: p.RcvSettleMode.Set}, value.AppendUint8)
	l.state(p.State)
	l.flag(p.Resume)
	l.flag(p.Aborted)
	l.flag(p.Batchable)
	return l.close(), l.err
}

func appendDisposition(dst []byte, p *Disposition) ([]byte, error) {
	l := openList(dst, DescDisposition)
	put(&l, bool(p.Role), value.AppendBool)
	put(&l, p.First, value.AppendUint32)
	l.uint32(p.Last)
	l.flag(p.Settled)
	l.state(p.State)
	l.flag(p.Batchable)
	return l.close(), l.err
}

func appendState(dst []byte, s DeliveryState) ([]byte, error) {
	switch s := s.(type) {
	case Accepted:
		l := openList(dst, DescAccepted)
		return l.close(), nil
	case Released:
		l := openList(dst, DescReleased)
		return l.close(), nil
	case Rejected:
		l := openList(dst, DescRejected)
		l.error(s.Error)
		return l.close(), l.err
	case Modified:
		l := openList(dst, DescModified)
		putOpt(&l, s.DeliveryFailed, value.AppendBool)
		putOpt(&l, s.UndeliverableHere, value.AppendBool)
		l.raw(s.MessageAnnotations)
		return l.close(), nil
	case Received:
		l := openList(dst, DescReceived)
		put(&l, s.SectionNumber, value.AppendUint32)
		put(&l, s.SectionOffset, value.AppendUint64)
		return l.close(), nil
	case Declared:
		l := openList(dst, DescDeclared)
		put(&l, s.TxnID, value.AppendBinary)
		return l.close(), nil
	case TransactionalState:
		l := openList(dst, DescTransactionalState)
		put(&l, s.TxnID, value.AppendBinary)
		l.state(s.Outcome)
		return l.close(), l.err
	}
	return dst, errors.New("cannot encode a delivery state that is missing or of an unknown type")
}

func appendError(dst []byte, e *Error) ([]byte, error) {
	l := openList(dst, DescError)
	put(&l, e.Condition, value.AppendSymbol)
	l.text(e.Description)
	l.mapping(e.Info)
	return l.close(), l.err
}

// list encodes a described list field by field. It also writes the nulls at the end, which AMQP 1.0
// §1.4 lets a sender omit, because the Python SDK reads fields by index without checking how many
// there are. err keeps the first error.
type list struct {
	dst  []byte
	mark int
	n    int // fields written so far
	err  error
}

func openList(dst []byte, d Descriptor) list {
	l := list{dst: value.AppendDescriptor(dst, uint64(d))}
	l.dst, l.mark = value.OpenList(l.dst)
	return l
}

func (l *list) close() []byte { return value.CloseList(l.dst, l.mark, l.n) }

func (l *list) null() {
	l.n++
	l.dst = value.AppendNull(l.dst)
}

func put[T any](l *list, v T, appendTo func([]byte, T) []byte) {
	l.n++
	l.dst = appendTo(l.dst, v)
}

func putOpt[T any](l *list, o value.Opt[T], appendTo func([]byte, T) []byte) {
	if o.Set {
		put(l, o.V, appendTo)
	} else {
		l.null()
	}
}

func (l *list) uint32(o value.Opt[uint32]) { putOpt(l, o, value.AppendUint32) }

func (l *list) flag(v bool) {
	if v {
		put(l, true, value.AppendBool)
	} else {
		l.null()
	}
}

// putText writes an empty text only if set is true.
func putText[T ~string](l *list, s T, set bool, appendTo func([]byte, T) []byte) {
	if set || s != "" {
		put(l, s, appendTo)
	} else {
		l.null()
	}
}

func (l *list) text(s string)                { putText(l, s, false, value.AppendString) }
func (l *list) symbol(s value.Symbol)        { putText(l, s, false, value.AppendSymbol) }
func (l *list) optText(s string, set bool)   { putText(l, s, set, value.AppendString) }
func (l *list) optSymbol(s string, set bool) { putText(l, s, set, value.AppendSymbol) }

func (l *list) binary(b []byte) {
	if b == nil {
		l.null()
	} else {
		put(l, b, value.AppendBinary)
	}
}

func (l *list) raw(b []byte) {
	if b == nil {
		l.null()
		return
	}
	l.n++
	l.dst = append(l.dst, b...)
}

func (l *list) any(v any) {
	l.n++
	var err error
	if l.dst, err = value.Append(l.dst, v); err != nil && l.err == nil {
		l.err = err
	}
}

func (l *list) mapping(m value.Map) {
	if m == nil {
		l.null()
	} else {
		l.any(m)
	}
}

func (l *list) symbols(s []value.Symbol) {
	if len(s) == 0 {
		l.null()
	} else {
		l.any(value.ArrayOf(s))
	}
}

func (l *list) state(s DeliveryState) {
	if s == nil {
		l.null()
		return
	}
	l.n++
	l.take(appendState(l.dst, s))
}

func (l *list) error(e *Error) {
	if e == nil {
		l.null()
		return
	}
	l.n++
	l.take(appendError(l.dst, e))
}

func (l *list) take(dst []byte, err error) {
	l.dst = dst
	if l.err == nil {
		l.err = err
	}
}
