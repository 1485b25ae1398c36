package host

// Methods are grouped by what they are about, as in h.Schedules().Create(ctx, …). Host and Namespace have the same groups, but
// only Host has Tokens. Get a group from one of them: its zero value cannot be used.
type (
	// Workflows are the versions of uploaded workflows. Host.Upload adds one.
	Workflows struct{ *nsRef }
	// Schedules start runs at times of the calendar.
	Schedules struct{ *nsRef }
	// WorkflowLimits limit how many runs of a workflow are in progress at a time, and how many begin within a window.
	WorkflowLimits struct{ *nsRef }
	// StartWindows debounce and throttle the starts of workflows.
	StartWindows struct{ *nsRef }
	// HandlerLimits limit the attempts of handlers.
	HandlerLimits struct{ *nsRef }
	// Retentions say how long ended runs are kept.
	Retentions struct{ *nsRef }
	// Attempts are the attempts of handlers whose workers are other processes: see Host.HandleRemote.
	Attempts struct{ *nsRef }
	// Hooks deliver answers from outside to the runs that wait for them.
	Hooks struct{ *nsRef }
	// Tokens give access to the HTTP API.
	Tokens struct{ h *Host }
)

// Workflows returns the workflows of the namespace.
func (s *scope) Workflows() Workflows { return Workflows{&s.nsRef} }

// Schedules returns the schedules of the namespace.
func (s *scope) Schedules() Schedules { return Schedules{&s.nsRef} }

// WorkflowLimits returns the limits of workflows.
func (s *scope) WorkflowLimits() WorkflowLimits { return WorkflowLimits{&s.nsRef} }

// StartWindows returns the start windows of workflows.
func (s *scope) StartWindows() StartWindows { return StartWindows{&s.nsRef} }

// HandlerLimits returns the limits of handlers.
func (s *scope) HandlerLimits() HandlerLimits { return HandlerLimits{&s.nsRef} }

// Retentions returns how long ended runs are kept.
func (s *scope) Retentions() Retentions { return Retentions{&s.nsRef} }

// Attempts returns the attempts for workers.
func (s *scope) Attempts() Attempts { return Attempts{&s.nsRef} }

// Hooks returns the hooks of the namespace's runs.
func (s *scope) Hooks() Hooks { return Hooks{&s.nsRef} }

// Tokens returns the tokens of the host.
func (h *Host) Tokens() Tokens { return Tokens{h} }
