package wire

// TransactionRequest is what a client sends on a link to a Coordinator: *Declare or *Discharge, as the value section of
// a message.
type TransactionRequest interface{ transactionRequest() }

func (*Declare) transactionRequest()   {}
func (*Discharge) transactionRequest() {}

// Declare asks for a new transaction, AMQP 1.0 §4.5.2.
type Declare struct {
	GlobalID []byte // encoded value; nil is none
}

// Discharge ends a transaction, §4.5.3.
type Discharge struct {
	TxnID []byte
	Fail  bool // roll back
}
