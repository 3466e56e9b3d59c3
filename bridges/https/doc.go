// Package https is the bridge for plain HTTP clients: the Service Bus REST
// runtime (send, receive, settle), the ATOM admin API, and the health probe.
//
// # Routes
//
// {e} is an entity path, whose name may hold '/' and '~', percent-encoded or
// not: a queue, a topic (to send to), or {topic}/Subscriptions/{name} (to receive
// from). It may end in /$DeadLetterQueue. Fixed segments are read in any case; a
// slash at the end is ignored.
//
//	GET    /health                          200 while sends really work, else 503; no authorization
//	POST   /{e}/messages                    send one, or a JSON array with the batch content type
//	POST   /{e}/messages/head?timeout=s     receive under a lock
//	DELETE /{e}/messages/head?timeout=s     receive and delete
//	DELETE /{e}/messages/{id}/{token}       complete
//	PUT    /{e}/messages/{id}/{token}       unlock (abandon: the delivery counts)
//	POST   /{e}/messages/{id}/{token}       renew the lock
//	GET    /$namespaceinfo                  ATOM: the namespace
//	GET    /$Resources/Queues, …/Topics     ATOM: the queues, the topics; $skip and $top
//	GET, PUT, DELETE /{e}                   ATOM: a queue or topic; PUT with If-Match updates
//	GET    /{topic}/Subscriptions           ATOM: the subscriptions; $skip and $top
//	GET, PUT, DELETE …/Subscriptions/{name} ATOM: a subscription, as above
//	GET    …/Subscriptions/{name}/Rules     ATOM: its rules; $skip and $top
//	GET, PUT, DELETE …/Rules/{rule}         ATOM: a rule, as above
//
// {id} is the message's sequence number, which must belong to the token, or its
// message id, which is taken on the token's word unless it looks like a number.
// Location headers name the sequence number.
//
// # Properties as headers
//
// A request header that is none of HTTP's own (see isUserHeader) is a user
// property. net/http capitalises header names as it reads them, so properties
// arrive as Priority or Order-Id whatever case the client wrote; a batch keeps
// the names exactly. On the way out names keep their case. What a header name
// cannot hold, and the names that HTTP owns, are percent-encoded ("order id"
// travels as order%20id, "Date" as %44ate), and decoded on the way in.
//
// Values in: "text" in double quotes is a string, or a date if it is an
// RFC 1123 date; true and false are booleans; digits are an int, or a long when
// they need it; decimal and exponent forms are a double; anything else is a
// string. Nothing inside the quotes is an escape.
//
// Values out: strings in double quotes, numbers and booleans bare, dates quoted
// (whole seconds). Types that headers do not know become quoted text: uuid,
// symbol, char, decimal and URI as text, binary as base64, TimeSpan as
// d.hh:mm:ss, anything compound as JSON. Null is left out. Text that is not
// printable ASCII, or that would be read back as a date, travels as one RFC 2047
// encoded word inside the quotes, "=?utf-8?B?...?=", which is accepted
// in the same place and always means a string.
//
// # Bodies
//
// A request's body is the message's payload, byte for byte; it may be as large as
// the entity's largest message, a batch as a whole too. Towards the client,
// data sections are joined; an AMQP value that is a string or binary is sent as
// its bytes; any other AMQP value, and sequences, are rendered as JSON with
// Content-Type application/json: see
// value.AppendJSON.
//
// A content type that a header cannot hold is given as ContentType in
// BrokerProperties instead.
package https
