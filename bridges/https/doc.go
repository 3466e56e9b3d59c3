// Package https is the bridge for plain HTTP clients: the Service Bus REST
// runtime (send, receive, settle), the ATOM admin API, streams of server-sent
// events, and the health probe. API.md has each request, header and status.
package https
