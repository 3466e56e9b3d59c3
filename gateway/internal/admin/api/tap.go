package api

// TapPath is followed by the name of a queue or topic. GET prints what clients send to it through this
// gateway, one message a line as crosstown record prints them, until the client goes, or after the
// seconds of the query parameter timeout. A client that reads too slowly gets a line Missed.
const TapPath = "/$crosstown/tap/"

// Missed is a line of a tap: so many messages are not in it.
type Missed struct {
	Missed int `json:"missed"`
}
