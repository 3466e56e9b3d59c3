package local

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strconv"
	"time"
)

// Sign returns a shared access signature, valid for life, for an entity and all below it, with the
// policy's rights. A server issues it to a page and keeps the key.
func Sign(entity, policy, key string, life time.Duration) string {
	sr := url.QueryEscape("sb://localhost/" + entity)
	se := strconv.FormatInt(time.Now().Add(life).Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = mac.Write([]byte(sr + "\n" + se)) // never fails
	sig := url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return "SharedAccessSignature sr=" + sr + "&sig=" + sig + "&se=" + se + "&skn=" + url.QueryEscape(policy)
}
