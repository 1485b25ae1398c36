package run

import (
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// randomBytes is the length of the random part of a token, in characters.
const randomBytes = 26

// NewToken makes a token for a hook of a run: 130 random bits in base32 (RFC 4648, lower case), a dot, and the run's
// id, by which the run is found.
func NewToken(random func([]byte), run store.RunKey) string {
	var b [17]byte
	random(b[:])
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:])
	return strings.ToLower(text)[:randomBytes] + "." + run.ID
}

// RunOfToken returns the id of the run in a token of NewToken, or false for a token of another form. A token that a
// user chose may have that form by chance.
func RunOfToken(token string) (id string, ok bool) {
	if len(token) <= randomBytes+1 || token[randomBytes] != '.' {
		return "", false
	}
	return token[randomBytes+1:], true
}

// Claim returns the request to the store for a command that claims or releases a token.
func Claim(cmd *store.Command, m *Message) store.HookClaim {
	claim := store.HookClaim{Namespace: cmd.To.Namespace, Token: m.Token, Ack: cmd.Seq,
		Release: cmd.Kind == store.CommandHookRelease,
		Holder:  store.HookHolder{Run: cmd.From, Incarnation: m.Sender, Iteration: m.Iteration, Handle: m.Handle}}
	if claim.Release {
		return claim
	}
	claim.Reply = func(h store.HookHolder) (*store.Command, error) {
		var refusal error
		if h != claim.Holder {
			refusal = &abi.Error{Code: abi.Conflict, Message: fmt.Sprintf("token %q is held by run %q", m.Token, h.Run.ID),
				Details: map[string]string{"holder": h.Run.ID}}
		}
		answer := Reply(cmd, m, refusal)
		return &answer, nil
	}
	return claim
}
