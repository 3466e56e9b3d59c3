// Package https is the bridge for plain HTTP clients: the Service Bus REST
// runtime (send, receive, settle), the ATOM admin API, and the health probe.
//
// # Routes
//
// {e} is an entity path, whose name may hold '/' and '~', percent-encoded or
// not: a queue, a topic (to send to), or {topic}/Subscriptions/{name} (to receive
// from). It may end in /$DeadLetterQueue. Fixed segments are read in any case; a
// slash at the end is ignored. A name may have segments "messages": the last one that
// makes a route ends it, and what makes none is the management API's.
//
//	GET    /health                          200 while sends really work, else 503; no authorization
//	POST   /{e}/messages                    send one, or a JSON array with the batch content type
//	POST   /{e}/messages/head?timeout=s     receive under a lock
//	DELETE /{e}/messages/head?timeout=s     receive and delete
//	GET    /{e}/messages/stream             server-sent events; see Streams
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
// With the header x-crosstown-retry-after (seconds, or an ISO 8601 duration) or
// x-crosstown-retry-at (a time by RFC 3339, or in quotes by RFC 1123) an unlocked
// message is delivered again no earlier than that.
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
// A receiver's Accept header counts where the gateway has serializers: a body of
// another type is sent as the one liked best that can be made of it. If there is
// none it is sent as it is, with its own Content-Type, rather than with 406, as
// RFC 9110 §12.5.1 allows: by then the message is locked, or gone, and a refusal
// would lose it or cost it a delivery. All other answers have one form each,
// whatever Accept says. So 406 is never answered.
//
// A content type that a header cannot hold is given as ContentType in
// BrokerProperties instead.
//
// # Pages of other origins
//
// A page of an origin in Options.Origins may send, receive, settle and read streams: the gateway
// answers its browser's preflights, and lets it read every header of an answer. The management API
// is not open to it. Access-Control-Allow-Credentials is never sent, so fetch must not be told to
// include credentials: the token is in the Authorization header. A preflight of a page of another
// origin is answered 403, and the log names the origin.
//
// # Streams
//
// A stream is an answer without end, in the form of server-sent events. It needs
// Listen, by the Authorization header like every request; a token in the address
// would end up in logs and histories, so it is refused there. EventSource cannot
// set headers: pages read streams with fetch.
//
//	mode=peek              (default) what the entity holds, and then what arrives
//	mode=receiveanddelete  what is taken from the entity for this stream
//	from=NUMBER            of mode=peek: the sequence number to begin at
//	from=new               of mode=peek: with what arrives from now on
//	bodies=binary          bodies as base64, whatever their content type
//	accept=TYPES           of mode=receiveanddelete: as a receiver's Accept header, below
//
// Each message is an event "message", its data the JSON of a message in the
// WebSocket protocol (bridges/websocket/PROTOCOL.md). The header Last-Event-ID,
// with the id of an event, resumes a peeking stream behind it. The id is the sequence number;
// of an entity with several partitions it lists the last one of each, since the
// numbers of partitions are independent: data has the message's own.
//
// A peeking stream looks for arrivals 125 ms after the last one, then less and
// less often, down to every 2 s. It shows messages in whatever state they are, a
// scheduled one again under its new number once it is due, and none of those
// that come and go between two looks.
//
// A taking stream asks for one message when the one before was written to the
// connection. If the client vanishes, what was on its way to it is lost, and up
// to one message more: a client that must not lose any receives under locks. It is not
// offered for entities with sessions.
//
// A stream that is silent for 15 s sends a comment. One whose client takes nothing for
// 30 s is cut. One that the gateway ends says why in an event "end", with code,
// text and whether to connect again: the entity was deleted or disabled, the token
// has expired, the gateway stops, or cannot reach its store. A gateway has a
// limited number of streams open at a time (Options.Streams). Messages of a stream count in the
// memory of messages in progress (Options.Budget): without memory it leaves them in the store.
package https
