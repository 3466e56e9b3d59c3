package wire

import "fmt"

type Descriptor uint64

const (
	DescOpen               Descriptor = 0x10
	DescBegin              Descriptor = 0x11
	DescAttach             Descriptor = 0x12
	DescFlow               Descriptor = 0x13
	DescTransfer           Descriptor = 0x14
	DescDisposition        Descriptor = 0x15
	DescDetach             Descriptor = 0x16
	DescEnd                Descriptor = 0x17
	DescClose              Descriptor = 0x18
	DescError              Descriptor = 0x1d
	DescReceived           Descriptor = 0x23
	DescAccepted           Descriptor = 0x24
	DescRejected           Descriptor = 0x25
	DescReleased           Descriptor = 0x26
	DescModified           Descriptor = 0x27
	DescSource             Descriptor = 0x28
	DescTarget             Descriptor = 0x29
	DescCoordinator        Descriptor = 0x30
	DescDeclare            Descriptor = 0x31
	DescDischarge          Descriptor = 0x32
	DescDeclared           Descriptor = 0x33
	DescTransactionalState Descriptor = 0x34
	DescSASLMechanisms     Descriptor = 0x40
	DescSASLInit           Descriptor = 0x41
	DescSASLChallenge      Descriptor = 0x42
	DescSASLResponse       Descriptor = 0x43
	DescSASLOutcome        Descriptor = 0x44

	DescHeader                Descriptor = 0x70
	DescDeliveryAnnotations   Descriptor = 0x71
	DescMessageAnnotations    Descriptor = 0x72
	DescProperties            Descriptor = 0x73
	DescApplicationProperties Descriptor = 0x74
	DescData                  Descriptor = 0x75
	DescSequence              Descriptor = 0x76
	DescValue                 Descriptor = 0x77
	DescFooter                Descriptor = 0x78
)

// descriptorSymbols are the symbolic forms, which are equivalent to the numbers (AMQP 1.0 §1.5).
var descriptorSymbols = map[string]Descriptor{
	"amqp:open:list":                  DescOpen,
	"amqp:begin:list":                 DescBegin,
	"amqp:attach:list":                DescAttach,
	"amqp:flow:list":                  DescFlow,
	"amqp:transfer:list":              DescTransfer,
	"amqp:disposition:list":           DescDisposition,
	"amqp:detach:list":                DescDetach,
	"amqp:end:list":                   DescEnd,
	"amqp:close:list":                 DescClose,
	"amqp:error:list":                 DescError,
	"amqp:received:list":              DescReceived,
	"amqp:accepted:list":              DescAccepted,
	"amqp:rejected:list":              DescRejected,
	"amqp:released:list":              DescReleased,
	"amqp:modified:list":              DescModified,
	"amqp:source:list":                DescSource,
	"amqp:target:list":                DescTarget,
	"amqp:coordinator:list":           DescCoordinator,
	"amqp:declare:list":               DescDeclare,
	"amqp:discharge:list":             DescDischarge,
	"amqp:declared:list":              DescDeclared,
	"amqp:transactional-state:list":   DescTransactionalState,
	"amqp:sasl-mechanisms:list":       DescSASLMechanisms,
	"amqp:sasl-init:list":             DescSASLInit,
	"amqp:sasl-challenge:list":        DescSASLChallenge,
	"amqp:sasl-response:list":         DescSASLResponse,
	"amqp:sasl-outcome:list":          DescSASLOutcome,
	"amqp:header:list":                DescHeader,
	"amqp:delivery-annotations:map":   DescDeliveryAnnotations,
	"amqp:message-annotations:map":    DescMessageAnnotations,
	"amqp:properties:list":            DescProperties,
	"amqp:application-properties:map": DescApplicationProperties,
	"amqp:data:binary":                DescData,
	"amqp:amqp-sequence:list":         DescSequence,
	"amqp:amqp-value:*":               DescValue,
	"amqp:footer:map":                 DescFooter,
}

func (d Descriptor) String() string {
	for s, n := range descriptorSymbols {
		if n == d {
			return s
		}
	}
	return fmt.Sprintf("descriptor 0x%x", uint64(d))
}
