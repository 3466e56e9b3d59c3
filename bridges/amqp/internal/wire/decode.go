package wire

import (
	"math"

	"github.com/crosstown-mq/crosstown/core/value"
)

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

// DecodePerformative decodes with a new Decoder. Byte slices in the results alias body.
func DecodePerformative(body []byte, lim value.Limits) (p Performative, payload []byte, err error) {
	d := Decoder{Limits: lim}
	return d.Decode(body)
}

// Decode decodes the body of a frame. Only a Transfer may have a payload. Byte slices in the
// results alias body. The error is an *Error with the condition amqp:decode-error for an invalid
// encoding, amqp:invalid-field for a missing mandatory field or a value out of range, or
// amqp:not-implemented for an unknown performative.
func (d *Decoder) Decode(body []byte) (p Performative, payload []byte, err error) {
	desc, rest, err := readDescriptor(body)
	if err != nil {
		return nil, nil, refuse(CondDecodeError, "frame body: %v", err)
	}
	f, payload := readFields(rest, desc, d.Limits)
	switch desc {
	case DescTransfer:
		p = d.decodeTransfer(&f)
	case DescFlow:
		p = d.decodeFlow(&f)
	case DescDisposition:
		p = d.decodeDisposition(&f)
	default:
		if p = decodeRare(&f); p == nil {
			return nil, nil, refuse(CondNotImplemented, "%s is not a performative", desc)
		}
	}
	if err := f.done(); err != nil {
		return nil, nil, err
	}
	if len(payload) > 0 && desc != DescTransfer {
		return nil, nil, refuse(CondDecodeError, "%s: %d bytes follow it in the frame", desc, len(payload))
	}
	return p, payload, nil
}

func (d *Decoder) decodeTransfer(f *fields) *Transfer {
	t := &d.transfer
	*t = Transfer{
		Handle:        must(f, "handle", value.ReadUint32),
		DeliveryID:    field(f, "delivery-id", value.ReadUint32),
		DeliveryTag:   f.binary("delivery-tag", MaxDeliveryTag),
		MessageFormat: field(f, "message-format", value.ReadUint32),
		Settled:       field(f, "settled", value.ReadBool),
		More:          field(f, "more", value.ReadBool).V,
		RcvSettleMode: upTo(f, "rcv-settle-mode", ReceiverSecond),
		State:         f.state("state"),
		Resume:        field(f, "resume", value.ReadBool).V,
		Aborted:       field(f, "aborted", value.ReadBool).V,
		Batchable:     field(f, "batchable", value.ReadBool).V,
	}
	return t
}

func (d *Decoder) decodeFlow(f *fields) *Flow {
	p := &d.flow
	*p = Flow{
		NextIncomingID: field(f, "next-incoming-id", value.ReadUint32),
		IncomingWindow: must(f, "incoming-window", value.ReadUint32),
		NextOutgoingID: must(f, "next-outgoing-id", value.ReadUint32),
		OutgoingWindow: must(f, "outgoing-window", value.ReadUint32),
		Handle:         field(f, "handle", value.ReadUint32),
		DeliveryCount:  field(f, "delivery-count", value.ReadUint32),
		LinkCredit:     field(f, "link-credit", value.ReadUint32),
		Available:      field(f, "available", value.ReadUint32),
		Drain:          field(f, "drain", value.ReadBool).V,
		Echo:           field(f, "echo", value.ReadBool).V,
		Properties:     f.rawMap("properties"),
	}
	return p
}

func (d *Decoder) decodeDisposition(f *fields) *Disposition {
	p := &d.disposition
	*p = Disposition{
		Role:      Role(must(f, "role", value.ReadBool)),
		First:     must(f, "first", value.ReadUint32),
		Last:      field(f, "last", value.ReadUint32),
		Settled:   field(f, "settled", value.ReadBool).V,
		State:     f.state("state"),
		Batchable: field(f, "batchable", value.ReadBool).V,
	}
	return p
}

// decodeRare decodes the other performatives, or returns nil for an unknown descriptor.
func decodeRare(f *fields) Performative {
	switch f.of {
	case DescOpen:
		return decodeOpen(f)
	case DescBegin:
		return decodeBegin(f)
	case DescAttach:
		return decodeAttach(f)
	case DescDetach:
		return &Detach{
			Handle: must(f, "handle", value.ReadUint32),
			Closed: field(f, "closed", value.ReadBool).V,
			Error:  f.error("error"),
		}
	case DescEnd:
		return &End{Error: f.error("error")}
	case DescClose:
		return &Close{Error: f.error("error")}
	case DescSASLMechanisms:
		p := &SASLMechanisms{Mechanisms: f.symbols("sasl-server-mechanisms")}
		if p.Mechanisms == nil {
			f.invalid("sasl-server-mechanisms", "is mandatory")
		}
		return p
	case DescSASLInit:
		return &SASLInit{
			Mechanism:       value.Symbol(must(f, "mechanism", readText)),
			InitialResponse: f.binary("initial-response", math.MaxInt),
			Hostname:        f.text("hostname"),
		}
	case DescSASLChallenge:
		return &SASLChallenge{Challenge: must(f, "challenge", value.ReadBinary)}
	case DescSASLResponse:
		return &SASLResponse{Response: must(f, "response", value.ReadBinary)}
	case DescSASLOutcome:
		code := upTo(f, "code", SASLSysTemp)
		if !code.Set {
			f.invalid("code", "is mandatory")
		}
		return &SASLOutcome{Code: code.V, AdditionalData: f.binary("additional-data", math.MaxInt)}
	}
	return nil
}

func decodeOpen(f *fields) *Open {
	p := &Open{
		ContainerID:         must(f, "container-id", readText),
		Hostname:            f.text("hostname"),
		MaxFrameSize:        field(f, "max-frame-size", value.ReadUint32),
		ChannelMax:          field(f, "channel-max", value.ReadUint16),
		IdleTimeOut:         field(f, "idle-time-out", value.ReadUint32),
		OutgoingLocales:     f.symbols("outgoing-locales"),
		IncomingLocales:     f.symbols("incoming-locales"),
		OfferedCapabilities: f.symbols("offered-capabilities"),
		DesiredCapabilities: f.symbols("desired-capabilities"),
		Properties:          f.mapping("properties"),
	}
	if p.MaxFrameSize.Or(DefaultMaxFrameSize) < MinMaxFrameSize {
		f.invalid("max-frame-size", "is %d: it must be at least %d", p.MaxFrameSize.V, MinMaxFrameSize)
	}
	return p
}

func decodeBegin(f *fields) *Begin {
	return &Begin{
		RemoteChannel:       field(f, "remote-channel", value.ReadUint16),
		NextOutgoingID:      must(f, "next-outgoing-id", value.ReadUint32),
		IncomingWindow:      must(f, "incoming-window", value.ReadUint32),
		OutgoingWindow:      must(f, "outgoing-window", value.ReadUint32),
		HandleMax:           field(f, "handle-max", value.ReadUint32),
		OfferedCapabilities: f.symbols("offered-capabilities"),
		DesiredCapabilities: f.symbols("desired-capabilities"),
		Properties:          f.mapping("properties"),
	}
}

func decodeAttach(f *fields) *Attach {
	p := &Attach{
		Name:          must(f, "name", readText),
		Handle:        must(f, "handle", value.ReadUint32),
		Role:          Role(must(f, "role", value.ReadBool)),
		SndSettleMode: upTo(f, "snd-settle-mode", SenderMixed),
		RcvSettleMode: upTo(f, "rcv-settle-mode", ReceiverSecond),
		Source:        decodeSource(f),
	}
	decodeTarget(f, p)
	f.rawMap("unsettled")
	p.IncompleteUnsettled = field(f, "incomplete-unsettled", value.ReadBool).V
	p.InitialDeliveryCount = field(f, "initial-delivery-count", value.ReadUint32)
	p.MaxMessageSize = field(f, "max-message-size", value.ReadUint64)
	p.OfferedCapabilities = f.symbols("offered-capabilities")
	p.DesiredCapabilities = f.symbols("desired-capabilities")
	p.Properties = f.mapping("properties")
	return p
}

func decodeSource(f *fields) *Source {
	in, ok := f.described("source")
	if !ok {
		return nil
	}
	if in.of != DescSource {
		f.invalid("source", "is %s", in.of)
		return nil
	}
	s := &Source{
		Address:               field(&in, "address", readText),
		Durable:               field(&in, "durable", value.ReadUint32),
		ExpiryPolicy:          in.symbol("expiry-policy"),
		Timeout:               field(&in, "timeout", value.ReadUint32),
		Dynamic:               field(&in, "dynamic", value.ReadBool).V,
		DynamicNodeProperties: in.mapping("dynamic-node-properties"),
		DistributionMode:      in.symbol("distribution-mode"),
		Filter:                in.mapping("filter"),
		DefaultOutcome:        in.state("default-outcome"),
		Outcomes:              in.symbols("outcomes"),
		Capabilities:          in.symbols("capabilities"),
	}
	f.close(&in)
	return s
}

func decodeTarget(f *fields, p *Attach) {
	in, ok := f.described("target")
	if !ok {
		return
	}
	switch in.of {
	case DescTarget:
		p.Target = &Target{
			Address:               field(&in, "address", readText),
			Durable:               field(&in, "durable", value.ReadUint32),
			ExpiryPolicy:          in.symbol("expiry-policy"),
			Timeout:               field(&in, "timeout", value.ReadUint32),
			Dynamic:               field(&in, "dynamic", value.ReadBool).V,
			DynamicNodeProperties: in.mapping("dynamic-node-properties"),
			Capabilities:          in.symbols("capabilities"),
		}
	case DescCoordinator:
		p.Coordinator = &Coordinator{Capabilities: in.symbols("capabilities")}
	default:
		f.invalid("target", "is %s", in.of)
		return
	}
	f.close(&in)
}

func (f *fields) state(name string) DeliveryState {
	in, ok := f.described(name)
	if !ok {
		return nil
	}
	s := decodeState(&in)
	f.close(&in)
	return s
}

func decodeState(f *fields) DeliveryState {
	switch f.of {
	case DescAccepted:
		return Accepted{}
	case DescReleased:
		return Released{}
	case DescRejected:
		return Rejected{Error: f.error("error")}
	case DescModified:
		return Modified{
			DeliveryFailed:     field(f, "delivery-failed", value.ReadBool),
			UndeliverableHere:  field(f, "undeliverable-here", value.ReadBool),
			MessageAnnotations: f.rawMap("message-annotations"),
		}
	case DescReceived:
		return Received{
			SectionNumber: must(f, "section-number", value.ReadUint32),
			SectionOffset: must(f, "section-offset", value.ReadUint64),
		}
	case DescDeclared:
		return Declared{TxnID: f.txnID()}
	case DescTransactionalState:
		return decodeTransactionalState(f)
	}
	f.invalid("0", "is not in a known delivery state")
	return nil
}

func decodeTransactionalState(f *fields) DeliveryState {
	s := TransactionalState{TxnID: f.txnID()}
	in, ok := f.described("outcome")
	if !ok {
		return s
	}
	if in.of == DescTransactionalState {
		f.invalid("outcome", "is a transactional state itself")
		return nil
	}
	s.Outcome = decodeState(&in)
	f.close(&in)
	return s
}

func (f *fields) txnID() []byte {
	id := f.binary("txn-id", MaxTxnID)
	if id == nil {
		f.invalid("txn-id", "is mandatory")
	}
	return id
}

func (f *fields) error(name string) *Error {
	in, ok := f.described(name)
	if !ok {
		return nil
	}
	if in.of != DescError {
		f.invalid(name, "is %s", in.of)
		return nil
	}
	e := &Error{
		Condition:   value.Symbol(must(&in, "condition", readText)),
		Description: in.text("description"),
		Info:        in.mapping("info"),
	}
	f.close(&in)
	return e
}

func DecodeTransactionRequest(b []byte, lim value.Limits) (TransactionRequest, error) {
	d, rest, err := readDescriptor(b)
	if err != nil {
		return nil, refuse(CondDecodeError, "transaction request: %v", err)
	}
	f, rest := readFields(rest, d, lim)
	var r TransactionRequest
	switch d {
	case DescDeclare:
		r = &Declare{GlobalID: f.raw("global-id")}
	case DescDischarge:
		r = &Discharge{TxnID: f.txnID(), Fail: field(&f, "fail", value.ReadBool).V}
	default:
		return nil, refuse(CondNotImplemented, "%s is not a transaction request", d)
	}
	if err := f.done(); err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, refuse(CondDecodeError, "%s: %d bytes follow it in the message", d, len(rest))
	}
	return r, nil
}
