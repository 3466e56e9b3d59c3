package wire

import "github.com/crosstown-mq/crosstown/core/value"

func (*SASLMechanisms) performative() {}
func (*SASLInit) performative()       {}
func (*SASLChallenge) performative()  {}
func (*SASLResponse) performative()   {}
func (*SASLOutcome) performative()    {}

// SASLMechanisms is the server's offer, AMQP 1.0 §5.3.3.1.
type SASLMechanisms struct{ Mechanisms []value.Symbol }

// SASLInit is the client's choice, §5.3.3.2.
type SASLInit struct {
	Mechanism       value.Symbol
	InitialResponse []byte // nil is absent
	Hostname        string
}

// SASLChallenge is a question of the server, §5.3.3.3.
type SASLChallenge struct{ Challenge []byte }

// SASLResponse is an answer of the client, §5.3.3.4.
type SASLResponse struct{ Response []byte }

// SASLOutcome ends the exchange, §5.3.3.5.
type SASLOutcome struct {
	Code           SASLCode
	AdditionalData []byte // nil is absent
}

// SASLCode is the result of an authentication.
type SASLCode uint8

// The results, §5.3.3.6.
const (
	SASLOK      SASLCode = 0
	SASLAuth    SASLCode = 1 // bad credentials
	SASLSys     SASLCode = 2 // system error
	SASLSysPerm SASLCode = 3
	SASLSysTemp SASLCode = 4
)
