package core

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate limits events: Burst at once, and on average one per Every.
type Rate struct {
	Every time.Duration // a whole number of microseconds, at least 1
	Burst int           // at least 1
}

var rateUnits = []struct {
	name string
	long time.Duration
}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}}

const maxRate = 100_000

// ParseRate parses a rate such as 5/s, 0.5/s, 300/m or 10/h. Burst is 1.
func ParseRate(text string) (Rate, error) {
	number, name, _ := strings.Cut(text, "/")
	per, err := strconv.ParseFloat(number, 64)
	for _, unit := range rateUnits {
		if unit.name != name || err != nil {
			continue
		}
		r := Rate{Every: time.Duration(float64(unit.long) / per).Round(time.Microsecond), Burst: 1}
		switch {
		case per == 0:
			return r, fmt.Errorf("%q allows no messages: to stop deliveries, set the status of the entity to ReceiveDisabled", text)
		case !(per > 0) || r.Every < time.Second/maxRate || r.Every > 24*time.Hour:
			return r, fmt.Errorf("%q is out of range: use a rate from 0.05/h to %d/s", text, maxRate)
		}
		return r, nil
	}
	return Rate{}, fmt.Errorf("%q is not a rate: use a number and a unit, such as 5/s, 300/m or 10/h", text)
}

// String returns the rate with up to four digits: "5/s" or, with a burst, "5/s, burst 10".
func (r Rate) String() string {
	unit := rateUnits[0]
	for _, larger := range rateUnits[1:] {
		if r.Every > unit.long {
			unit = larger
		}
	}
	text := fmt.Sprintf("%.4g/%s", float64(unit.long)/float64(r.Every), unit.name)
	if r.Burst > 1 {
		text += fmt.Sprintf(", burst %d", r.Burst)
	}
	return text
}

// Take grants up to n operations by the generic cell rate algorithm. Times are in microseconds.
// whole is the result wholeAfter of the previous call, or 0: when a full burst is available again.
// next is when one more operation is allowed.
func (r Rate) Take(whole, now int64, n int) (granted int, wholeAfter, next int64) {
	every, burst := r.Every.Microseconds(), int64(r.Burst)
	// If the clock was set back, wait no longer than for a full burst.
	whole = min(max(whole, now), now+burst*every)
	granted = int(min(int64(n), (now+burst*every-whole)/every))
	whole += int64(granted) * every
	return granted, whole, whole - (burst-1)*every
}
