package entity

import "github.com/crosstown-mq/crosstown/core"

// ScheduledBy returns the reserved messages that the work schedules, and their numbers.
func ScheduledBy(w *core.Work) (ms []*core.Message, numbers []int64) {
	for _, x := range w.Scheduled {
		ms, numbers = append(ms, x.Message), append(numbers, x.Number)
	}
	return ms, numbers
}

// IsEmptyWork reports whether there is nothing to do.
func IsEmptyWork(w *core.Work) bool {
	return len(w.Settlements)+len(w.Cancels)+len(w.States)+len(w.Scheduled)+len(w.Messages)+len(w.Transfers) == 0
}

// HasTransfers reports whether the work sends messages to other entities.
func HasTransfers(w *core.Work) bool {
	for i := range w.Effects {
		if len(w.Effects[i].Transfers) > 0 {
			return true
		}
	}
	return len(w.Transfers) > 0
}

// WithoutCopies are publications without copies: those are made when the messages are due.
func WithoutCopies(ms []*core.Message) []core.Publication {
	made := make([]core.Publication, len(ms))
	for i, m := range ms {
		made[i].Message = m
	}
	return made
}
