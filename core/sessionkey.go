package core

import "strings"

// SessionKey identifies a session of an entity: it is the session's id, folded as FoldName folds
// names, so that ids that differ only in case are those of one session. The empty id has a key,
// too; the zero SessionKey means no session. A key contains no zero byte, so stores can put one
// behind it, and keys sort, byte by byte, as folded ids do.
type SessionKey string

// emptySessionKey is the key of the empty id. No other id results in it.
const emptySessionKey SessionKey = "\x01"

var sessionEscapes = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")

// KeyOfSession is the key of a session's id.
func KeyOfSession(id string) SessionKey {
	if id == "" {
		return emptySessionKey
	}
	return SessionKey(sessionEscapes.Replace(FoldName(id)))
}

// SessionKey is the key of the message's session, "" for none.
func (m *Message) SessionKey() SessionKey {
	if !m.HasSession() {
		return ""
	}
	return KeyOfSession(m.SessionID)
}

// Key is the key of the locked session.
func (l *SessionLock) Key() SessionKey { return KeyOfSession(l.ID) }
