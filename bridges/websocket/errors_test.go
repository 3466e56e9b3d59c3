package websocket

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/bridges/internal/frame"
	"github.com/crosstown-mq/crosstown/bridges/refusals"
	"github.com/crosstown-mq/crosstown/core"
)

func codeNames() (names []any) {
	for _, c := range core.Codes() {
		names = append(names, string(c))
	}
	return names
}

func TestAClientLearnsWhatIsMeantForItAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		code core.Code
		text string
	}{
		{core.Refuse(core.TooLarge, "Too large by 5."), core.TooLarge, "Too large by 5."},
		{fmt.Errorf("send q: %w", core.LockLost), core.LockLost, refusals.Text(core.LockLost)},
		{frame.In("messages", frame.At(3, frame.Wrong("is odd"))), core.InvalidArgument, "messages[3] is odd."},
		{errors.New("dial redis://secret"), core.Internal, refusals.Text(core.Internal)},
		{fmt.Errorf("%w: secret", io.ErrUnexpectedEOF), core.Internal, refusals.Text(core.Internal)},
	} {
		if code, text := words(tt.err); code != tt.code || text != tt.text {
			t.Errorf("%v: got %s %q, want %s %q", tt.err, code, text, tt.code, tt.text)
		}
	}
}

// TestTheSpecificationKnowsEveryCode compares PROTOCOL.md with the core.
func TestTheSpecificationKnowsEveryCode(t *testing.T) {
	t.Parallel()
	for _, code := range core.Codes() {
		if !strings.Contains(specification, string(code)) {
			t.Errorf("PROTOCOL.md does not know %s", code)
		}
	}
	for name, o := range operations {
		if !strings.Contains(specification, "`"+name+"`") {
			t.Errorf("PROTOCOL.md does not know the operation %s", name)
		}
		for i := range members {
			if bit := memberSet(1) << i; (o.need|o.may|o.either)&bit != 0 && !strings.Contains(specification, "`"+members[i].name) {
				t.Errorf("PROTOCOL.md does not know %s of %s", members[i].name, name)
			}
		}
	}
	for _, code := range []closeCode{closeNormal, closeStopping, closeEncoding, closeMalformed, closeTooLarge, closeInternal, closeNoID, closeNotSignedIn, closeForced, closeTooSlow} {
		if !strings.Contains(specification, fmt.Sprintf("| %d |", code)) {
			t.Errorf("PROTOCOL.md does not know the close code %d", code)
		}
	}
}
