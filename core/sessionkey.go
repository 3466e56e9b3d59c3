package core

import "strings"

// SessionKey is what tells the sessions of an entity apart: a session's id,
// folded as FoldName folds names, so that ids that differ in case only are those
// of one session. The empty id has a key like any other; the zero SessionKey is
// that of no session. A key holds no zero byte, so stores can put one behind it,
// and keys sort, byte by byte, as folded ids do.
type SessionKey string

// emptySessionKey is the key of the empty id: the escapes never write it.
const emptySessionKey SessionKey = "\x01"

var sessionEscapes = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")

// KeyOfSession is the key of the session of that id.
func KeyOfSession(id string) SessionKey {
	if id == "" {
		return emptySessionKey
	}
	return SessionKey(sessionEscapes.Replace(FoldName(id)))
}

// SessionKey is that of the session that the message belongs to; "" if it
// belongs to none.
func (m *Message) SessionKey() SessionKey {
	if !m.HasSession() {
		return ""
	}
	return KeyOfSession(m.SessionID)
}

// Key is that of the session that is locked.
func (l *SessionLock) Key() SessionKey { return KeyOfSession(l.ID) }
