// Package rules decides which of a topic's messages each subscription gets. A
// rule is compiled once and evaluated for many messages; the rules of all
// subscriptions of a topic make a Set, which finds the matching ones together.
//
// Filters are SQL conditions in three-valued logic, correlation filters (all
// of some properties are equal), or true or false. Only an answer of True is a
// match. Actions are SET and REMOVE statements.
//
// Messages are read in their encoded form. A Set decodes those properties
// that some filter names, each once for all filters, and allocates nothing.
// Filters that need equality, which are all correlation filters and the SQL
// conditions that are a conjunction with "property = constant" in it, are found
// by hash: the cost of a message depends on how many different sets of
// properties (shapes) the filters test, not on how many filters there are. All
// others are evaluated one by one.
//
// # Names
//
// Names of user and system properties compare without regard to case, in SQL
// as in correlation filters; of several keys that differ only in case, the first
// counts. A name without a scope is a user property. sys.Subject is sys.Label.
//
// # Values
//
// Where the service's documentation says nothing, this is what we chose:
//
//   - Integers of all widths are one type; they and doubles compare exactly, as
//     numbers, without rounding one to the other's type. float and the
//     decimals are converted to double. A NaN is unequal to everything.
//   - string, symbol, char and URI are text and compare by code points, with
//     regard to case; so does LIKE, where % is any text and _ one code point.
//   - timestamp and .NET's DateTimeOffset are instants; a TimeSpan is of its own
//     type. uuid, binary and boolean can be equal, and have no order.
//   - Values of different types, and lists, maps and values with an unknown descriptor, do not
//     compare: the answer is Unknown, also for <>.
//   - A property without a value is Unknown, like one that is missing; IS NULL
//     is true of both. EXISTS is true of a user property that is there, even
//     without a value, and of a system property that has a value.
//   - System properties of type text that are empty are not set. What the broker
//     does not know while a message is published, such as sys.LockToken, has no
//     value. sys.State is 'Active', 'Deferred' or 'Scheduled'.
//   - A boolean property, or property(…), is a condition by itself. If its value is not a boolean,
//     the condition is Unknown.
//   - x IN (a, b) is x = a OR x = b.
//
// # Plugins
//
// plugin('name', value, name = value, …) is a condition that a router answers,
// with constants and parameters as its arguments. Calls are collected per rule
// and Set, so that routers can be asked for many messages at once beforehand;
// Facts.Ask gives the answers.
//
// # Fields of the body
//
// body.order.total is a field of the message's body, which Facts.Body decodes: at most once for all
// filters, and only if the evaluation reaches a filter that names such a field. Keys are
// case-sensitive; a key that is not a word is in brackets after the '.', as in
// body.[order id].[_rev]. body.lines[0].sku is a field of the first element of a list. A field that
// is missing, null, below a value that is no map or list, or in a body that cannot be decoded, is
// Unknown; EXISTS(body.x) is true of a field that is there, even null. Lists and maps do not
// compare with anything. The body itself has no name: body alone is a user property.
//
// # Arithmetic
//
// Integer division cuts off the fraction. A division by zero, of whatever type, and an integer
// result beyond 64 bits are errors. Arithmetic takes unsigned integers beyond 63 bits, decimals,
// and literals beyond 64 bits as doubles. + joins texts, and a text with what can be written as
// text: numbers, booleans (True, False), UUIDs, instants (ISO 8601) and TimeSpans (d.hh:mm:ss); a
// longer text than a message may carry is an error.
//
// # Errors
//
// Compile refuses what it does not understand, parameters without a value, and constants that a
// system property cannot be set to. A system property that does not exist has no value. The
// evaluation of a message can fail only in arithmetic, even of constants, in plugin(…), and in LIKE
// if its pattern is computed, or is a constant that is not a pattern. AND and OR are evaluated from
// the left, and stop once the answer is certain; what comes after cannot fail any more.
//
// All rules of a topic together have a budget of work for each message (maxWork): whatever looks at
// long texts, many properties or large bodies spends part of it. Once it is spent, conditions and
// actions that need more are errors. For each character of the text, LIKE takes one step per 64
// characters of its pattern.
//
// # Correlation filters
//
// Fields compare as text; a message id that is a number or UUID compares by its text form. An empty
// text asks for a field that is empty or not set. User properties are equal if they are of the same
// family (numbers of all types; texts; and so on) and have the same value: 1 is 1.0, and is not
// '1'.
//
// # Actions
//
// A copy gets the user property RuleName. Then the statements run in order, and each sees what the
// earlier ones did. SET keeps the type of a property that exists, if the value can have that type:
// the text '5' becomes an int if the property was an int, and 5 becomes a text if it was a text.
// Otherwise the property gets the type of the property that it is copied from, or long, double,
// string, boolean, uuid, timestamp or TimeSpan. To set a property to NULL or Unknown removes it.
// sys.ScheduledEnqueueTimeUtc and sys.ForcePersistence can be set without effect; other system
// properties that only the broker sets are refused. A copy whose session id and partition key
// differ, whose ids are too long, or whose properties outgrow a message, is an error.
package rules
