package api

import "time"

// ConnectionsPath is the endpoint of the connections of clients to this gateway, for clients with Manage
// on their namespace: those of the namespace, or for operators those of all. GET lists them, DELETE
// closes the one whose id follows, and answers with it.
const ConnectionsPath = "/$crosstown/connections"

// ConnectionList are connections, those of each protocol with the oldest first.
type ConnectionList struct {
	Connections []Connection `json:"connections"`
}

// Connection is one client's connection.
type Connection struct {
	ID        string    `json:"id"`        // as in the gateway's log
	Protocol  string    `json:"protocol"`  // "amqp", "amqp over websocket", "websocket" or "event stream"
	Peer      string    `json:"peer"`      // the client's address
	Namespace string    `json:"namespace"` // "" as long as the client has proven nothing
	Since     time.Time `json:"since"`
	Policies  []string  `json:"policies,omitempty"` // shared access policies, or subjects of tokens
	Product   string    `json:"product,omitempty"`  // what the client calls itself
	Links     []Link    `json:"links"`
}

// Link is a connection's use of one entity.
type Link struct {
	Entity    string  `json:"entity"`
	Direction string  `json:"direction"`         // "send" or "receive"
	Mode      string  `json:"mode,omitempty"`    // of one that receives: "peekLock" or "receiveAndDelete"
	Session   *string `json:"session,omitempty"` // the session that it holds
}
