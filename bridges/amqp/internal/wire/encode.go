package wire

import (
	"errors"

	"github.com/crosstown-mq/crosstown/core/value"
)

// appendPerformative appends p as the body of a frame.
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
	return dst, errors.New("no performative")
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
	return dst, errors.New("no delivery state")
}

func appendError(dst []byte, e *Error) ([]byte, error) {
	l := openList(dst, DescError)
	put(&l, e.Condition, value.AppendSymbol)
	l.text(e.Description)
	l.mapping(e.Info)
	return l.close(), l.err
}
