package wire

import "github.com/crosstown-mq/crosstown/core/value"

// DeliveryState is one of Received, Accepted, Rejected, Released, Modified, Declared and TransactionalState, by value;
// nil is none.
type DeliveryState interface{ deliveryState() }

func (Received) deliveryState()           {}
func (Accepted) deliveryState()           {}
func (Rejected) deliveryState()           {}
func (Released) deliveryState()           {}
func (Modified) deliveryState()           {}
func (Declared) deliveryState()           {}
func (TransactionalState) deliveryState() {}

// Received says how much of a delivery has arrived, AMQP 1.0 §3.4.1.
type Received struct {
	SectionNumber uint32
	SectionOffset uint64
}

// Accepted is the outcome of a delivery that was processed, §3.4.2.
type Accepted struct{}

// Rejected is the outcome of a delivery that is invalid, §3.4.3. Service Bus clients dead-letter with it.
type Rejected struct{ Error *Error }

// Released is the outcome of a delivery that was not and will not be processed, §3.4.4.
type Released struct{}

// Modified is the outcome of a delivery that was not processed and is to change, §3.4.5. Service Bus clients abandon
// and defer with it.
type Modified struct {
	DeliveryFailed     value.Opt[bool]
	UndeliverableHere  value.Opt[bool]
	MessageAnnotations []byte // encoded map
}

// Declared is the outcome of a declare: the id of the new transaction, §4.5.5.
type Declared struct{ TxnID []byte }

// TransactionalState says that a transfer or an outcome belongs to a transaction, §4.5.8. Outcome is nil in a transfer,
// and never a TransactionalState itself.
type TransactionalState struct {
	TxnID   []byte
	Outcome DeliveryState
}
