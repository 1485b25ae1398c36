package httpapi

import (
	"bufio"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// array writes an answer that is a JSON array while its elements are read. It holds one element and arrayBytes.
type array struct {
	c     huma.Context
	limit int // of elements
	n     int
	w     *bufio.Writer
}

// arrayBytes is how much is written at a time.
const arrayBytes = 16 << 10

// add writes an element, or the error with which the elements end, and reports whether to go on. An error before the first
// element is a problem document; after that it cuts the connection, so that nobody takes a part for the whole.
func (a *array) add(v any, err error) bool {
	var b []byte
	if err == nil {
		b, err = json.Marshal(v)
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
		_ = a.w.WriteByte(',') // the error stays in w
	}
	if _, err := a.w.Write(b); err != nil { // the client is gone
		return false
	}
	if a.n++; a.n >= a.limit {
		a.end()
		return false
	}
	return true
}

func (a *array) begin() {
	if a.w == nil {
		a.c.SetHeader("Content-Type", "application/json")
		a.w = bufio.NewWriterSize(a.c.BodyWriter(), arrayBytes)
		_ = a.w.WriteByte('[') // into memory
	}
}

// end writes the end of the array.
func (a *array) end() {
	a.begin()
	_, _ = a.w.WriteString("]\n")
	_ = a.w.Flush() // the client is gone
}

func (a *array) problem(err error) {
	p, ok := err.(*Problem) //nolint:errorlint // made by failed
	if !ok {
		return
	}
	a.c.SetHeader("Content-Type", p.ContentType(""))
	a.c.SetStatus(p.Status)
	_ = json.NewEncoder(a.c.BodyWriter()).Encode(p) // the client is gone
}

// arrayOf describes an answer that array writes.
func arrayOf[T any](api huma.API) map[string]*huma.Response {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[[]T](), true, "")
	return map[string]*huma.Response{"200": {Description: http.StatusText(http.StatusOK),
		Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}}
}
