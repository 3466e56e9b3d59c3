package core

// MessageField describes a string or an id of a sender, for code that handles them by name.
type MessageField struct {
	Name string     // in Service Bus, in BrokerProperties and in SQL
	Bit  TextFields // 0: an empty string means not set
	// Limit is the maximum number of characters, or 0.
	Limit int
	// Exactly one of Text and ID is set. It returns a pointer to the field.
	Text func(*Message) *string
	ID   func(*Message) *ID
}

var MessageFields = [...]MessageField{
	{Name: "MessageId", Limit: MaxKeyLength, ID: func(m *Message) *ID { return &m.MessageID }},
	{Name: "CorrelationId", Bit: FieldCorrelationID, ID: func(m *Message) *ID { return &m.CorrelationID }},
	{Name: "SessionId", Bit: FieldSessionID, Limit: MaxKeyLength, Text: func(m *Message) *string { return &m.SessionID }},
	{Name: "ReplyToSessionId", Bit: FieldReplyToSessionID, Limit: MaxKeyLength, Text: func(m *Message) *string { return &m.ReplyToSessionID }},
	{Name: "Label", Bit: FieldSubject, Text: func(m *Message) *string { return &m.Subject }},
	{Name: "To", Bit: FieldTo, Text: func(m *Message) *string { return &m.To }},
	{Name: "ReplyTo", Bit: FieldReplyTo, Text: func(m *Message) *string { return &m.ReplyTo }},
	{Name: "ContentType", Bit: FieldContentType, Text: func(m *Message) *string { return &m.ContentType }},
	{Name: "PartitionKey", Limit: MaxKeyLength, Text: func(m *Message) *string { return &m.PartitionKey }},
	{Name: "ViaPartitionKey", Limit: MaxKeyLength, Text: func(m *Message) *string { return &m.ViaPartitionKey }},
}

// Set sets the field to a string, which may be empty.
func (f *MessageField) Set(m *Message, s string) {
	if f.Text != nil {
		*f.Text(m) = s
	} else {
		*f.ID(m) = StringID(s)
	}
	if s == "" {
		m.EmptyText |= f.Bit
	}
}

func (f *MessageField) Unset(m *Message) {
	f.Set(m, "")
	m.EmptyText &^= f.Bit
}
