// Package https is the bridge for plain HTTP clients. It implements the REST runtime of Service Bus
// (send, receive, settle), the ATOM management API, streams of server-sent events, and the health
// check. API.md describes each request, header and status.
package https
