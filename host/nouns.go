package host

// Methods are grouped by what they are about, as in h.Schedules().Create(ctx, …). Host and Namespace have the same groups, but
// only Host has Tokens. Get a group from one of them: its zero value cannot be used.
type (
	// Workflows are the versions of uploaded workflows. Host.Upload adds one.
	Workflows struct{ *space }
	// Schedules start runs at times of the calendar.
	Schedules struct{ *space }
	// WorkflowLimits limit how many runs of a workflow go on at a time, and how many start within a time.
	WorkflowLimits struct{ *space }
	// StartWindows debounce and throttle the starts of workflows.
	StartWindows struct{ *space }
	// HandlerLimits limit the attempts of handlers.
	HandlerLimits struct{ *space }
	// Retentions say how long ended runs are kept.
	Retentions struct{ *space }
	// Attempts are the attempts of handlers whose workers are other processes: see Host.HandleRemote.
	Attempts struct{ *space }
	// Hooks deliver answers from outside to the runs that wait for them.
	Hooks struct{ *space }
	// Tokens give access to the HTTP API.
	Tokens struct{ h *Host }
)

// Workflows returns the workflows of the namespace.
func (s *scope) Workflows() Workflows { return Workflows{&s.space} }

// Schedules returns the schedules of the namespace.
func (s *scope) Schedules() Schedules { return Schedules{&s.space} }

// WorkflowLimits returns the limits of workflows.
func (s *scope) WorkflowLimits() WorkflowLimits { return WorkflowLimits{&s.space} }

// StartWindows returns the start windows of workflows.
func (s *scope) StartWindows() StartWindows { return StartWindows{&s.space} }

// HandlerLimits returns the limits of handlers.
func (s *scope) HandlerLimits() HandlerLimits { return HandlerLimits{&s.space} }

// Retentions returns how long ended runs are kept.
func (s *scope) Retentions() Retentions { return Retentions{&s.space} }

// Attempts returns the attempts for workers.
func (s *scope) Attempts() Attempts { return Attempts{&s.space} }

// Hooks returns the hooks of the namespace's runs.
func (s *scope) Hooks() Hooks { return Hooks{&s.space} }

// Tokens returns the tokens of the host.
func (h *Host) Tokens() Tokens { return Tokens{h} }
