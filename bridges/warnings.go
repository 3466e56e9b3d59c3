package bridges

import (
	"sync/atomic"
	"time"
)

// warningPause is the time in which one warning of a kind is enough: clients
// must not be able to fill the log.
const warningPause = 10 * time.Second

// Warnings limits the warnings of one kind to one in ten seconds. The zero value
// is ready, for any number of goroutines.
type Warnings struct{ next atomic.Int64 } // Unix nanoseconds

// Due reports whether to warn now. If it does, further warnings are not due for
// ten seconds.
func (w *Warnings) Due() bool {
	now, next := time.Now().UnixNano(), w.next.Load()
	return now >= next && w.next.CompareAndSwap(next, now+int64(warningPause))
}
