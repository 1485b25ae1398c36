package page

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host"
)

const (
	// sessionIdle is how long a session lasts after its last request: a working day.
	sessionIdle = 12 * time.Hour
	// maxSessions bounds the sessions, at some hundred bytes each; a new session evicts the least recently used one.
	maxSessions = 1000
	// maxTokenText bounds the text of a token: tokens of the host have 47 characters.
	maxTokenText = 1024
	cookieName   = "wfhost_session"
)

// sessions holds the logins. They are in memory: after a restart people log in again, since the local token changes
// then. A session holds the text of its token, which is checked with each request, so that revoking the token ends the
// session.
type sessions struct {
	clock host.Clock
	seal  cipher.AEAD // nil: sessions are in memory; else in their cookies, for 12 hours after the login

	mu sync.Mutex // guards by; no calls out while it is held
	by map[string]*session
}

type session struct {
	token string
	seen  time.Time
}

func newSessions(c host.Clock, seal cipher.AEAD) *sessions {
	return &sessions{clock: c, seal: seal, by: map[string]*session{}}
}

// sealed returns a session that any server with the key can read: the time of the login in Unix milliseconds and the token,
// encrypted.
func (s *sessions) sealed(token string) string {
	nonce := make([]byte, s.seal.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	plain := append(binary.BigEndian.AppendUint64(nil, uint64(s.clock.Now().UnixMilli())), token...)
	return base64.RawURLEncoding.EncodeToString(s.seal.Seal(nonce, nonce, plain, nil))
}

// unseal returns the token of a session in a cookie.
func (s *sessions) unseal(id string) (string, bool) {
	b, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(b) < s.seal.NonceSize() {
		return "", false
	}
	plain, err := s.seal.Open(nil, b[:s.seal.NonceSize()], b[s.seal.NonceSize():], nil)
	if err != nil || len(plain) < 8 {
		return "", false
	}
	began := time.UnixMilli(int64(binary.BigEndian.Uint64(plain)))
	return string(plain[8:]), s.clock.Now().Sub(began) <= sessionIdle
}

// begin creates a session for a token and returns its id.
func (s *sessions) begin(token string) string {
	if s.seal != nil {
		return s.sealed(token)
	}
	id, now := rand.Text(), s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := ""
	for id, x := range s.by {
		if now.Sub(x.seen) > sessionIdle {
			delete(s.by, id)
		} else if oldest == "" || x.seen.Before(s.by[oldest].seen) {
			oldest = id
		}
	}
	if len(s.by) >= maxSessions {
		delete(s.by, oldest)
	}
	s.by[id] = &session{token, now}
	return id
}

// token returns the token of a live session.
func (s *sessions) token(id string) (string, bool) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.by[id]
	if s.seal != nil {
		if ok { // it has ended
			return "", false
		}
		return s.unseal(id)
	}
	if !ok || now.Sub(x.seen) > sessionIdle {
		delete(s.by, id)
		return "", false
	}
	x.seen = now
	return x.token, true
}

// end ends a session.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, id)
	if s.seal != nil && len(s.by) < maxSessions { // the browser forgets it, too
		s.by[id] = &session{}
	}
}

// Token returns the text of the token with which the visitor has logged in.
func (p *Page) Token(r *http.Request) (text string, ok bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return "", false
	}
	return p.sessions.token(cookie.Value)
}

// who returns the caller of a request, and the id of the session if there is a login.
func (p *Page) who(r *http.Request) (Caller, string, error) {
	if p.o.people != nil {
		c, err := p.o.people(r)
		return c, "", err
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return Caller{}, "", ErrUnknown
	}
	text, ok := p.sessions.token(cookie.Value)
	if !ok {
		return Caller{}, "", ErrUnknown
	}
	c, err := p.o.tokens(r, text)
	if errors.Is(err, host.ErrUnauthorized) { // revoked or expired
		p.sessions.end(cookie.Value)
		return Caller{}, "", ErrUnknown
	}
	return c, cookie.Value, err
}

// checkOrigin refuses a POST from another origin, or without headers that tell its origin: every browser sends one of
// them.
func checkOrigin(r *http.Request) error {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	u, err := url.Parse(origin)
	same := err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
	if site != "" && site != "same-origin" || origin != "" && !same || site == "" && origin == "" {
		return say(http.StatusForbidden, "This was not sent by this page: an action has to be confirmed here. "+
			"Programs use the HTTP API.")
	}
	return nil
}

// Token returns the token for the forms of the visit. It is derived from the session, or from the caller without a
// login, so that no other site can make a form that is accepted.
func (v *visit) Token() string {
	mac := hmac.New(sha256.New, v.p.key)
	mac.Write([]byte(v.session + "\x00" + v.caller.Name + "\x00" + v.caller.ID))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (v *visit) checkToken(text string) error {
	if !hmac.Equal([]byte(text), []byte(v.Token())) {
		return say(http.StatusForbidden, "The form is not of this session, or is older than the server. "+
			"Load the page again, and repeat.")
	}
	return nil
}

// toLogin redirects to the login. A request from a link on another site comes without the cookie, which is
// SameSite=Strict: then the page reloads itself once.
func (v *visit) toLogin() {
	if v.r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		v.w.Header().Set("Refresh", "0; url="+v.p.o.prefix+v.r.URL.RequestURI())
		v.write(http.StatusOK, "error", "One moment", "The page is being opened.")
		return
	}
	to := v.p.o.prefix + "/login"
	if v.r.URL.Path != "/" {
		to += "?" + url.Values{"next": {v.r.URL.RequestURI()}}.Encode()
	}
	v.redirect(to)
}

// loginData is the data of the login page.
type loginData struct{ Next, Problem string }

func (v *visit) login() error {
	if v.p.o.people != nil {
		v.redirect(v.p.o.prefix + "/")
		return nil
	}
	return v.write(http.StatusOK, "login", "Log in", loginData{Next: v.r.URL.Query().Get("next")})
}

// enter logs in.
func (v *visit) enter() error {
	if v.p.o.people != nil {
		return say(http.StatusNotFound, "There is no login here.")
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, 64<<10)
	if err := v.r.ParseForm(); err != nil {
		return unread(err)
	}
	text, next := strings.TrimSpace(v.r.PostForm.Get("token")), v.r.PostForm.Get("next")
	c, err := Caller{}, host.ErrUnauthorized
	if text != "" && len(text) <= maxTokenText {
		c, err = v.p.o.tokens(v.r, text)
	}
	if errors.Is(err, host.ErrUnauthorized) {
		return v.write(http.StatusUnauthorized, "login", "Log in", loginData{next, "This token is not accepted: it is not one of " +
			"this server, or it was revoked or has expired."})
	}
	if err != nil {
		return err
	}
	v.caller = c
	v.cookie(v.p.sessions.begin(text), 0)
	if u, err := url.Parse(next); err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n") {
		next = "/"
	}
	v.redirect(v.p.o.prefix + next)
	return nil
}

// leave logs out.
func (v *visit) leave() error {
	c, session, err := v.p.who(v.r)
	if err == nil && session != "" {
		v.caller, v.session = c, session
		if err := v.readForm(); err != nil {
			return err
		}
		v.p.sessions.end(session)
	}
	v.cookie("", -1)
	v.redirect(v.p.o.prefix + "/login")
	return nil
}

// cookie sets the cookie of a session. It holds only the session's id, is sent only to this page, is hidden from
// scripts, and lasts until the browser is closed.
func (v *visit) cookie(id string, maxAge int) {
	http.SetCookie(v.w, &http.Cookie{Name: cookieName, Value: id, Path: v.p.o.prefix + "/", MaxAge: maxAge, HttpOnly: true,
		Secure: v.r.TLS != nil || v.p.o.secure, SameSite: http.SameSiteStrictMode})
}

func (v *visit) redirect(to string) {
	v.status = http.StatusSeeOther
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
}
