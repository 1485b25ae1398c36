package httpapi

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// This file adds what huma does not know about operations: bodies that are read as bytes, and answers beside the
// default.

// anyJSON is the schema of a value whose type the workflow defines.
var anyJSON = &huma.Schema{Description: "any JSON; the workflow says which"}

// bytesOf is the schema of bytes that are not JSON.
var bytesOf = &huma.Schema{Type: huma.TypeString, Format: "binary"}

// rawBodies has the operations whose body is a value of the workflow.
var rawBodies = []string{"signal", "query", "update", "complete", "heartbeat"}

// rawAnswers has the operations that answer 200 with a value of the workflow: JSON, or bytes if it has returned bytes.
var rawAnswers = []string{"result", "query", "query-get", "update", "update-result"}

// answers has further statuses of successful answers, beside the operation's default, and the types of their bodies.
var answers = map[string]map[int]reflect.Type{
	"start":         {http.StatusCreated: reflect.TypeFor[host.Run]()},
	"upload":        {http.StatusCreated: reflect.TypeFor[List[host.Version]]()},
	"define":        {http.StatusCreated: reflect.TypeFor[Defined]()},
	"result":        {http.StatusAccepted: reflect.TypeFor[host.Run]()},
	"update":        {http.StatusAccepted: reflect.TypeFor[host.Update]()},
	"update-result": {http.StatusAccepted: reflect.TypeFor[host.Update]()},
}

// meanings explains the statuses of refused requests.
var meanings = map[int]string{
	http.StatusBadRequest:            "what was asked for is no request of this kind",
	http.StatusUnauthorized:          "a token is needed",
	http.StatusForbidden:             "the token does not allow it, or a page of a foreign origin asks",
	http.StatusNotFound:              "there is no such thing in the namespace, or no such namespace",
	http.StatusNotAcceptable:         "nothing of what Accept names can be sent",
	http.StatusRequestTimeout:        "the body did not come in time",
	http.StatusConflict:              "it does not go with what there is",
	http.StatusRequestEntityTooLarge: "the body is too large, or a limit of the run is reached",
	http.StatusUnsupportedMediaType:  "the body has another content type than the operation takes",
	http.StatusMisdirectedRequest:    "the server is not called by the name that Host has",
	http.StatusUnprocessableEntity:   "a parameter or the body does not fit to its schema, or the run has failed",
	http.StatusTooManyRequests:       "too many requests or runs; try again",
	http.StatusInternalServerError:   "a defect of the server",
	http.StatusNotImplemented:        "the server was built without what this needs",
	http.StatusServiceUnavailable:    "the server is about to end, or its store has failed; try again",
	http.StatusInsufficientStorage:   "the disk is nearly full",
}

// The statuses with which requests may be refused: always for every request, the others for requests with a token,
// with a namespace, with a body, and for changes.
var (
	always     = []int{400, 406, 421, 422, 429, 500, 503}
	withToken  = []int{401, 403}
	withSpace  = []int{404}
	withBody   = []int{408, 413, 415}
	withChange = []int{409, 413, 507}
)

// more has the additional statuses of single operations.
var more = map[string][]int{"define": {501}, "deliver": {404, 413, 408, 409, 507}, "export-run": {409, 413}, "hosts": {404},
	"query":     {409, 413},
	"query-get": {409, 413}, "result": {409}, "update-result": {409}, "take-attempts": {409}}

// statusesOf returns the statuses with which requests to an operation may be refused.
func statusesOf(op *huma.Operation) []int {
	pattern := op.Method + " " + op.Path
	list := append(slices.Clone(always), more[op.OperationID]...)
	if scopes[pattern] != public {
		list = append(list, withToken...)
	}
	if !everywhere[pattern] || op.Method != http.MethodGet {
		list = append(list, withSpace...)
	}
	if op.RequestBody != nil {
		list = append(list, withBody...)
	}
	if op.Method != http.MethodGet {
		list = append(list, withChange...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// operations calls f for each described operation.
func operations(api huma.API, f func(op *huma.Operation)) {
	for _, item := range api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete} {
			if op != nil {
				f(op)
			}
		}
	}
}

// describe completes the description of the operations.
func describe(api huma.API) {
	registry := api.OpenAPI().Components.Schemas
	schema := func(t reflect.Type) *huma.Schema { return registry.Schema(t, true, "") }
	problems := map[string]*huma.MediaType{"application/problem+json": {Schema: schema(reflect.TypeFor[Problem]())}}
	operations(api, func(op *huma.Operation) {
		if op.OperationID == "start" {
			op.RequestBody.Content = map[string]*huma.MediaType{"application/json": {Schema: schema(reflect.TypeFor[StartRequest]())}}
		}
		if slices.Contains(rawBodies, op.OperationID) {
			op.RequestBody.Content = map[string]*huma.MediaType{"application/json": {Schema: anyJSON}}
		}
		if slices.Contains(rawAnswers, op.OperationID) {
			op.Responses["200"].Content = map[string]*huma.MediaType{"application/json": {Schema: anyJSON},
				"application/octet-stream": {Schema: bytesOf}}
		}
		for status, body := range answers[op.OperationID] {
			op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status),
				Content: map[string]*huma.MediaType{"application/json": {Schema: schema(body)}}}
		}
		if op.OperationID != "deliver" {
			delete(op.Responses, "default")
		}
		for _, status := range statusesOf(op) {
			op.Responses[strconv.Itoa(status)] = &huma.Response{Description: meanings[status], Content: problems}
		}
	})
	describeStatuses(api)
}

// describeStatuses sets the enums of the description. They may grow.
func describeStatuses(api huma.API) {
	registry := api.OpenAPI().Components.Schemas.Map()
	names := []any{}
	for s := store.Queued; s <= store.Terminated; s++ {
		names = append(names, s.String())
	}
	for _, name := range []string{"Run", "RunCheck"} {
		registry[name].Properties["status"].Enum = names
	}
	registry["Problem"].Properties["code"].Enum = allCodes()
	for _, p := range api.OpenAPI().Paths["/v1/runs"].Get.Parameters {
		switch p.Name {
		case "status": // one or more, separated by commas
			p.Schema = &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Enum: names}}
		case "order":
			p.Schema.Enum = []any{"newest", "oldest"}
			p.Schema.PrecomputeMessages()
		}
	}
}

// allCodes returns the codes of all problems.
func allCodes() []any {
	all := map[string]bool{"internal": true}
	for _, k := range kinds {
		all[k.code] = true
	}
	for _, code := range codes {
		all[code] = true
	}
	for _, code := range ownCodes {
		all[code] = true
	}
	list := []any{}
	for _, code := range slices.Sorted(maps.Keys(all)) {
		list = append(list, code)
	}
	return list
}

// ownCodes has the codes of problems without an error of the host, and the statuses of runs that ended without a
// result.
var ownCodes = []string{"schema", "definition", "scope", "origin", "host", "unauthorized", "interpreter", "draining", "starting",
	"cancelled", "moved", "peer",
	"busy", "query_failed", "update_failed", "update_refused", "failed", "terminated", "stuck", "disk_full"}
