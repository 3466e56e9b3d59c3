package wire

import "github.com/crosstown-mq/crosstown/core/value"

// Conditions of AMQP 1.0 §2.8.15–§2.8.18 and §4.5.9.
const (
	CondInternalError         value.Symbol = "amqp:internal-error"
	CondNotFound              value.Symbol = "amqp:not-found"
	CondUnauthorizedAccess    value.Symbol = "amqp:unauthorized-access"
	CondDecodeError           value.Symbol = "amqp:decode-error"
	CondResourceLimitExceeded value.Symbol = "amqp:resource-limit-exceeded"
	CondNotAllowed            value.Symbol = "amqp:not-allowed"
	CondInvalidField          value.Symbol = "amqp:invalid-field"
	CondNotImplemented        value.Symbol = "amqp:not-implemented"
	CondResourceLocked        value.Symbol = "amqp:resource-locked"
	CondPreconditionFailed    value.Symbol = "amqp:precondition-failed"
	CondResourceDeleted       value.Symbol = "amqp:resource-deleted"
	CondIllegalState          value.Symbol = "amqp:illegal-state"
	CondFrameSizeTooSmall     value.Symbol = "amqp:frame-size-too-small"

	CondConnectionForced   value.Symbol = "amqp:connection:forced"
	CondFramingError       value.Symbol = "amqp:connection:framing-error"
	CondConnectionRedirect value.Symbol = "amqp:connection:redirect"

	CondWindowViolation  value.Symbol = "amqp:session:window-violation"
	CondErrantLink       value.Symbol = "amqp:session:errant-link"
	CondHandleInUse      value.Symbol = "amqp:session:handle-in-use"
	CondUnattachedHandle value.Symbol = "amqp:session:unattached-handle"

	CondDetachForced          value.Symbol = "amqp:link:detach-forced"
	CondTransferLimitExceeded value.Symbol = "amqp:link:transfer-limit-exceeded"
	CondMessageSizeExceeded   value.Symbol = "amqp:link:message-size-exceeded"
	CondLinkRedirect          value.Symbol = "amqp:link:redirect"
	CondLinkStolen            value.Symbol = "amqp:link:stolen"

	CondTransactionUnknownID value.Symbol = "amqp:transaction:unknown-id"
	CondTransactionRollback  value.Symbol = "amqp:transaction:rollback"
)

// Conditions of Service Bus.
const (
	CondAuthFailed              value.Symbol = "com.microsoft:auth-failed"
	CondTimeout                 value.Symbol = "com.microsoft:timeout"
	CondServerBusy              value.Symbol = "com.microsoft:server-busy"
	CondOperationCancelled      value.Symbol = "com.microsoft:operation-cancelled"
	CondArgumentError           value.Symbol = "com.microsoft:argument-error"
	CondArgumentOutOfRange      value.Symbol = "com.microsoft:argument-out-of-range"
	CondEntityDisabled          value.Symbol = "com.microsoft:entity-disabled"
	CondEntityAlreadyExists     value.Symbol = "com.microsoft:entity-already-exists"
	CondMessageLockLost         value.Symbol = "com.microsoft:message-lock-lost"
	CondSessionLockLost         value.Symbol = "com.microsoft:session-lock-lost"
	CondSessionCannotBeLocked   value.Symbol = "com.microsoft:session-cannot-be-locked"
	CondMessageNotFound         value.Symbol = "com.microsoft:message-not-found"
	CondStoreLockLost           value.Symbol = "com.microsoft:store-lock-lost"
	CondNoMatchingSubscription  value.Symbol = "com.microsoft:no-matching-subscription"
	CondPartitionNotOwned       value.Symbol = "com.microsoft:partition-not-owned"
	CondPublisherRevoked        value.Symbol = "com.microsoft:publisher-revoked"
	CondAddressAlreadyInUse     value.Symbol = "com.microsoft:address-already-in-use"
	CondRelayNotFound           value.Symbol = "com.microsoft:relay-not-found"
	CondContainerClose          value.Symbol = "com.microsoft:container-close"
	CondPreconditionFailedAzure value.Symbol = "com.microsoft:precondition-failed"
	CondDeadLetter              value.Symbol = "com.microsoft:dead-letter" // sent by clients, in Rejected
)
