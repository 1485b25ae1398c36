package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/host"
)

// RestartQuery selects the part of a run that a new run repeats.
type RestartQuery struct {
	RunPath
	NewID      string `query:"id" doc:"of the new run"`
	From       string `query:"from" doc:"first step, sleep or child that is done again"`
	Iteration  string `query:"iteration" pattern:"^[0-9]{1,9}$" doc:"default: the newest that has from, or the first"`
	Version    uint32 `query:"version" maximum:"4294967295" doc:"of the new run; default: that of the run"`
	KeepUndone bool   `query:"keep_undone" doc:"keep what was undone since, and cancelled children, instead of refusing"`
	DryRun     bool   `query:"dry_run" doc:"only say what the new run would keep and repeat"`
}

func (q *RestartQuery) options() (o host.RestartOptions, err error) {
	o = host.RestartOptions{NewID: q.NewID, From: q.From, Version: q.Version, KeepUndone: q.KeepUndone}
	if q.Iteration != "" {
		n, err := strconv.ParseUint(q.Iteration, 10, 32)
		if err != nil {
			return o, problem(http.StatusBadRequest, "invalid", "the iteration must be a number from 0, got %.40q", q.Iteration)
		}
		iteration := uint32(n)
		o.Iteration = &iteration
	}
	return o, nil
}

// query returns the parameters of a restart that is no dry run.
func (q *RestartQuery) query() url.Values {
	v := url.Values{"id": {q.NewID}, "version": {strconv.FormatUint(uint64(q.Version), 10)},
		"keep_undone": {strconv.FormatBool(q.KeepUndone)}}
	for name, text := range map[string]string{"from": q.From, "iteration": q.Iteration} {
		if text != "" {
			v.Set(name, text)
		}
	}
	return v
}

type restartOutput struct {
	Status int
	Body   any // a host.Run, or a host.RestartPlan
}

func (s *API) registerRestart(api huma.API) {
	answer := func(description string, of reflect.Type) *huma.Response {
		return &huma.Response{Description: description, Content: map[string]*huma.MediaType{"application/json": {
			Schema: api.OpenAPI().Components.Schemas.Schema(of, true, "")}}}
	}
	huma.Register(api, huma.Operation{OperationID: "restart", Method: http.MethodPost, Path: "/v1/runs/{id}/restart",
		Summary: "Start a new run like this one, from its beginning or from a named step", DefaultStatus: http.StatusCreated,
		Responses: map[string]*huma.Response{"201": answer("The new run", reflect.TypeFor[host.Run]()),
			"200": answer("With dry_run: what the new run would keep and repeat", reflect.TypeFor[host.RestartPlan]())}},
		func(ctx context.Context, in *RestartQuery) (*restartOutput, error) {
			o, err := in.options()
			if err != nil {
				return nil, err
			}
			if in.DryRun {
				p, err := namespaceFrom(ctx).PlanRestart(ctx, in.ID, o)
				return &restartOutput{http.StatusOK, p}, failed(err)
			}
			o.Elsewhere = func(ctx context.Context, owner host.HostInfo) error {
				ok, err := s.passAgain(ctx, &owner, "/v1/runs/"+url.PathEscape(in.ID)+"/restart", in.query(), nil, "", nil)
				if !ok {
					return host.ErrFenced
				}
				return err
			}
			r, err := namespaceFrom(ctx).RestartWith(ctx, in.ID, o)
			return &restartOutput{http.StatusCreated, r}, failed(err)
		})
}
