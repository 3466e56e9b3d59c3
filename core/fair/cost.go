package fair

// What things take of the memory besides their bytes.
const (
	Message    = 2 << 10  // a message that has been read and not stored yet: decoded, and in the form of its store
	Delivery   = 512      // a delivery that its client has not settled
	Link       = 1536     // an AMQP link with what the broker opens for it
	Session    = 2 << 10  // an AMQP session
	Connection = 16 << 10 // a connection of any protocol with its buffers
)
