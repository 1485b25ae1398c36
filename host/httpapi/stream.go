package httpapi

import (
	"bufio"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// stream writes a List while its items are read. It holds one item and streamBytes.
type stream struct {
	c     huma.Context
	limit int // of items
	n     int
	bytes int    // of the items
	last  uint64 // index of the last item
	w     *bufio.Writer
}

const (
	// streamBytes is the size of the write buffer.
	streamBytes = 16 << 10
	// maxStreamed bounds the bytes of items in a streamed list; the next page continues after them. Clients keep an
	// answer in memory, and read at most 64 MiB of one.
	maxStreamed = 16 << 20
)

// add writes an item with its index, or ends the list with an error, and reports whether to continue. An error before
// the first item becomes a problem document; after that it cuts the connection, so that no client takes a part for the
// whole. An item over a limit is not written; the cursor is then the index after the last item.
func (a *stream) add(index uint64, v any, err error) bool {
	if err == nil && (a.n >= a.limit || a.bytes >= maxStreamed) {
		a.close(strconv.FormatUint(a.last+1, 10))
		return false
	}
	var b []byte
	if err == nil {
		b, err = marshal(v)
	}
	if err != nil && a.w == nil {
		a.problem(failed(err))
		return false
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	a.begin()
	if a.n > 0 {
		_ = a.w.WriteByte(',') // w keeps the error
	}
	if _, err := a.w.Write(b); err != nil { // the client is gone
		return false
	}
	a.n, a.bytes, a.last = a.n+1, a.bytes+len(b), index
	return true
}

func (a *stream) begin() {
	if a.w == nil {
		a.c.SetHeader("Content-Type", "application/json")
		a.w = bufio.NewWriterSize(a.c.BodyWriter(), streamBytes)
		_, _ = a.w.WriteString(`{"items":[`) // into memory
	}
}

// end writes the end of the last page.
func (a *stream) end() { a.close("") }

// close writes the end of the list, with the cursor of the next page unless it is empty.
func (a *stream) close(next string) {
	a.begin()
	end := "]}\n"
	if next != "" {
		end = `],"next":"` + next + "\"}\n"
	}
	_, _ = a.w.WriteString(end)
	_ = a.w.Flush() // the client is gone
}

// position returns the index at which a list begins: the cursor's, or from without a cursor.
func position(cursor string, from uint64) (uint64, error) {
	if cursor == "" {
		return from, nil
	}
	at, err := strconv.ParseUint(cursor, 10, 64)
	if err != nil || from != 0 {
		return 0, problem(http.StatusBadRequest, "invalid", "cursor must be next of the page before, and without from, got %.80q",
			cursor)
	}
	return at, nil
}

func (a *stream) problem(err error) {
	p, ok := err.(*Problem) //nolint:errorlint // made by failed
	if !ok {
		return
	}
	a.c.SetHeader("Content-Type", p.ContentType(""))
	a.c.SetStatus(p.Status)
	_ = Encode(a.c.BodyWriter(), p, "") // the client is gone
}

// single answers with an available value.
func single(v any, err error) (*huma.StreamResponse, error) {
	if err != nil {
		return nil, failed(err)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		c.SetHeader("Content-Type", "application/json")
		_ = Encode(c.BodyWriter(), v, "") // the client is gone
	}}, nil
}

// answerOf describes an answer that huma does not write.
func answerOf[T any](api huma.API) map[string]*huma.Response {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	return map[string]*huma.Response{"200": {Description: http.StatusText(http.StatusOK),
		Content: map[string]*huma.MediaType{"application/json": {Schema: schema}, eventStream: {Schema: eventsSchema}}}}
}

// eventsSchema is the schema of event streams. OpenAPI cannot describe more of them.
var eventsSchema = &huma.Schema{Type: huma.TypeString, Description: "server-sent events"}

// streamOf describes an answer that stream writes.
func streamOf[T any](api huma.API) map[string]*huma.Response { return answerOf[List[T]](api) }
