// Package rules decides which of a topic's messages each subscription gets. A rule is compiled
// once, and evaluated for many messages. The rules of all subscriptions of a topic make a Set,
// which finds all matching rules of a message together.
//
// Filters are SQL conditions in three-valued logic, correlation filters (all given properties must
// be equal), or true or false. Only the answer True is a match. Actions are SET and REMOVE
// statements.
//
// Messages are read in their encoded form. A Set decodes only properties that a filter names, each
// once for all filters, and allocates nothing. Correlation filters, and SQL conditions that are a
// conjunction with "property = constant" in it, are found by hash. So the cost of a message depends
// on how many different sets of properties (shapes) such filters test, and not on how many filters
// there are. All other filters are evaluated one by one.
//
// # Names
//
// The case of names of user and system properties does not matter, in SQL as in correlation
// filters. Of several keys that differ only in case, the first counts. A name without a scope is a
// user property. sys.Subject is sys.Label.
//
// # Values
//
// Where the documentation of Service Bus says nothing, these rules apply:
//
//   - Integers of all widths are one type. Integers and doubles compare by their exact values:
//     neither is rounded to the other's type. float and the decimals become double. A NaN is
//     unequal to everything.
//   - string, symbol, char and URI are text. Text compares by code points, and its case matters,
//     also in LIKE, where % matches any text and _ one code point.
//   - timestamp and .NET's DateTimeOffset are instants. A TimeSpan has its own type. uuid, binary
//     and boolean can be equal, but have no order.
//   - A comparison of values of different types is Unknown, and so is one of lists, maps and values
//     with an unknown descriptor, also with <>.
//   - A property without a value is Unknown, like a missing one; IS NULL is true for both. EXISTS
//     is true for a user property that exists, even without a value, and for a system property
//     that has a value.
//   - System properties that are an empty text are not set. Those that are unknown while a message
//     is published, such as sys.LockToken, have no value. sys.State is 'Active', 'Deferred' or
//     'Scheduled'.
//   - A boolean property, or property(…), is a condition. If its value is not a boolean, the
//     condition is Unknown.
//   - x IN (a, b) means x = a OR x = b.
//
// # Plugins
//
// plugin('name', value, name = value, …) is a condition that a router decides. Its arguments are
// constants and parameters. A Rule and a Set list their calls, so that routers can be asked in
// advance, for many messages at once. Facts.Ask has their answers.
//
// # Fields of the body
//
// body.order.total is a field of the message's body. Facts.Body decodes the body, at most once for
// all filters, and only when a filter that names a field is evaluated. The case of keys matters. A
// key that is not a word is written in brackets after the '.', as in body.[order id].[_rev].
// body.lines[0].sku is a field of the first element of a list. A field is Unknown if it is missing
// or null, if it is below a value that is neither a map nor a list, or if the body cannot be
// decoded. EXISTS(body.x) is true if the field exists, even if it is null. A comparison with a list
// or a map is Unknown. body without a field is a user property.
//
// # Arithmetic
//
// Integer division cuts off the fraction. Division by zero, in any type, and an integer result
// beyond 64 bits are errors. Unsigned integers beyond 63 bits, decimals, and literals beyond 64
// bits are computed as doubles. + also joins two texts, or a text and a value that can be written
// as text: a number, a boolean (True, False), a UUID, an instant (ISO 8601) or a TimeSpan
// (d.hh:mm:ss). A text longer than a message may carry is an error.
//
// # Errors
//
// Compile refuses what it does not understand, parameters without a value, and constants to which a
// system property cannot be set. A system property that does not exist has no value. Only
// arithmetic (even with constants), plugin(…) and LIKE can fail for a message; LIKE fails if its
// pattern is invalid. AND and OR are evaluated from the left, and stop once the answer is certain;
// what follows can then no longer fail.
//
// All rules of a topic share a budget of work for each message (maxWork). Conditions and actions
// that look at long texts, many properties or large bodies use it up; once it is used up, they
// fail. For each character of the text, LIKE takes one step per 64 characters of its pattern.
//
// # Correlation filters
//
// Fields are compared as text, and so are message ids that are numbers or UUIDs. An empty text
// matches a field that is empty or not set. User properties are equal if they have the same value
// in the same family (all types of numbers, all types of text, and so on): 1 equals 1.0, but not
// '1'.
//
// # Actions
//
// A copy gets the user property RuleName. Then the statements run in order, and each sees what the
// earlier ones have done. SET keeps the type of a property that exists, if the value can have that
// type: the text '5' becomes an int if the property was an int, and 5 becomes a text if it was a
// text. Otherwise the property gets the type of the property that was copied, or long, double,
// string, boolean, uuid, timestamp or TimeSpan. Setting a property to NULL or Unknown removes it.
// sys.ScheduledEnqueueTimeUtc and sys.ForcePersistence can be set, but this has no effect. Other
// system properties that only the broker sets are refused. It is an error if the session id and the
// partition key of a copy differ, if its ids are too long, or if its properties outgrow a message.
package rules
