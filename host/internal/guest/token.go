package guest

import (
	"encoding/base32"
	"strings"

	"github.com/wfhost/wfhost/store"
)

// NewToken makes a token for a hook of a run: 130 random bits in base32 (RFC 4648, lower case), and the run's id, by
// which it is found.
func NewToken(random func([]byte), key store.RunKey) string {
	var b [17]byte
	random(b[:])
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:])
	return strings.ToLower(text)[:TokenBytes] + "." + key.ID
}

// TokenBytes is the length of the random part of a token.
const TokenBytes = 26
