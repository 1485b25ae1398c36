package client

// Methods are grouped by what they are about, as in package host: c.Schedules().Create(ctx, …).
type (
	// Workflows are the versions of uploaded workflows. Client.Upload adds one.
	Workflows struct{ c *Client }
	// Schedules start runs at times of the calendar.
	Schedules struct{ c *Client }
	// WorkflowLimits limit how many runs of a workflow are in progress at a time, and how many begin within a window.
	WorkflowLimits struct{ c *Client }
	// StartWindows debounce and throttle the starts of workflows.
	StartWindows struct{ c *Client }
	// HandlerLimits limit the attempts of handlers.
	HandlerLimits struct{ c *Client }
	// Retentions say how long ended runs are kept.
	Retentions struct{ c *Client }
	// Hooks deliver answers from outside to the runs that wait for them.
	Hooks struct{ c *Client }
	// Tokens give access to the server.
	Tokens struct{ c *Client }
)

// Workflows returns the workflows of the namespace.
func (c *Client) Workflows() Workflows { return Workflows{c} }

// Schedules returns the schedules of the namespace.
func (c *Client) Schedules() Schedules { return Schedules{c} }

// WorkflowLimits returns the limits of workflows.
func (c *Client) WorkflowLimits() WorkflowLimits { return WorkflowLimits{c} }

// StartWindows returns the start windows of workflows.
func (c *Client) StartWindows() StartWindows { return StartWindows{c} }

// HandlerLimits returns the limits of handlers.
func (c *Client) HandlerLimits() HandlerLimits { return HandlerLimits{c} }

// Retentions returns how long ended runs are kept.
func (c *Client) Retentions() Retentions { return Retentions{c} }

// Hooks returns the hooks of the namespace's runs.
func (c *Client) Hooks() Hooks { return Hooks{c} }

// Tokens returns the tokens of the server.
func (c *Client) Tokens() Tokens { return Tokens{c} }
