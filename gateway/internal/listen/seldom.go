package listen

import (
	"sync/atomic"
	"time"
)

// warningPause is the time in which one warning about strangers is enough:
// they must not be able to fill the log.
const warningPause = 10 * time.Second

// seldom says yes once in warningPause. The zero value is ready, for any
// number of goroutines.
type seldom struct{ next atomic.Int64 } // Unix nanoseconds

func (s *seldom) now() bool {
	now, next := time.Now().UnixNano(), s.next.Load()
	return now >= next && s.next.CompareAndSwap(next, now+int64(warningPause))
}
