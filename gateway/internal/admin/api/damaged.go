package api

import "time"

// DamagedPath is followed by the name of a queue or subscription, or of its sub-queue. GET lists the
// messages that the file store has put aside because they are damaged, by sequence number, with the
// parameters from (a sequence number) and top (100, at most 1000), for clients with Listen on the entity.
const DamagedPath = "/$crosstown/damaged/"

// DamagedList is a page of damaged messages.
type DamagedList struct {
	Damaged []Damaged `json:"damaged"`
}

// Damaged is what is known of a damaged message.
type Damaged struct {
	SequenceNumber int64      `json:"sequenceNumber"`
	Enqueued       time.Time  `json:"enqueued"`
	Expires        *time.Time `json:"expires,omitempty"`
	Deliveries     uint32     `json:"failedDeliveries"`
	Session        string     `json:"session,omitempty"`
	Reason         string     `json:"reason"`
}
