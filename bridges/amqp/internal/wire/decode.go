package wire

import "github.com/crosstown-mq/crosstown/core/value"

// MaxDeliveryTag and MaxTxnID are lengths in bytes. AMQP 1.0 §2.8.7 allows 32 for a delivery tag,
// but the SDK for Java before version 7 writes 36.
const (
	MaxDeliveryTag = 256
	MaxTxnID       = 32
)

// Decoder decodes the performatives of one connection. A *Transfer, *Flow or *Disposition that it
// returns belongs to the Decoder and is valid until the next call of Decode. Their decoding
// allocates no memory if the state of the Transfer or Disposition is nil, Accepted or Released. A
// Decoder is not safe for concurrent use.
type Decoder struct {
	Limits value.Limits // bounds each map, and each value in a field of any type

	transfer    Transfer
	flow        Flow
	disposition Disposition
}

// Decode decodes the body of a frame. Only a Transfer may have a payload. Byte slices in the
// results alias body. The error is an *Error with the condition amqp:decode-error for an invalid
// encoding, amqp:invalid-field for a missing mandatory field or a value out of range, or
// amqp:not-implemented for an unknown performative.
func (d *Decoder) Decode(body []byte) (p Performative, payload []byte, err error) {
	desc, rest, err := readDescriptor(body)
	if err != nil {
		return nil, nil, refuse(CondDecodeError, "cannot decode the body of a frame: %v", err)
	}
	l, payload := readList(rest, desc, d.Limits)
	switch desc {
	case DescTransfer:
		d.transfer = Transfer{}
		p = &d.transfer
	case DescFlow:
		d.flow = Flow{}
		p = &d.flow
	case DescDisposition:
		d.disposition = Disposition{}
		p = &d.disposition
	default:
		create := rare[desc]
		if create == nil {
			return nil, nil, refuse(CondNotImplemented, "%s is not a performative", desc)
		}
		p = create()
	}
	l.perform(p)
	if err := l.done(); err != nil {
		return nil, nil, err
	}
	if len(payload) > 0 && desc != DescTransfer {
		return nil, nil, refuse(CondDecodeError, "%d bytes follow the performative %s in the frame", len(payload), desc)
	}
	return p, payload, nil
}

// rare are the performatives that a Decoder does not keep.
var rare = map[Descriptor]func() Performative{
	DescOpen:           func() Performative { return &Open{} },
	DescBegin:          func() Performative { return &Begin{} },
	DescAttach:         func() Performative { return &Attach{} },
	DescDetach:         func() Performative { return &Detach{} },
	DescEnd:            func() Performative { return &End{} },
	DescClose:          func() Performative { return &Close{} },
	DescSASLMechanisms: func() Performative { return &SASLMechanisms{} },
	DescSASLInit:       func() Performative { return &SASLInit{} },
	DescSASLChallenge:  func() Performative { return &SASLChallenge{} },
	DescSASLResponse:   func() Performative { return &SASLResponse{} },
	DescSASLOutcome:    func() Performative { return &SASLOutcome{} },
}

func DecodeTransactionRequest(b []byte, lim value.Limits) (TransactionRequest, error) {
	d, rest, err := readDescriptor(b)
	if err != nil {
		return nil, refuse(CondDecodeError, "cannot decode a transaction request: %v", err)
	}
	l, rest := readList(rest, d, lim)
	var r TransactionRequest
	switch d {
	case DescDeclare:
		r = &Declare{}
	case DescDischarge:
		r = &Discharge{}
	default:
		return nil, refuse(CondNotImplemented, "%s is not a transaction request", d)
	}
	r.fields(&l)
	if err := l.done(); err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, refuse(CondDecodeError, "%d bytes follow the request %s in the message", len(rest), d)
	}
	return r, nil
}
