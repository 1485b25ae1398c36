// Package limits decides what may begin now: runs of workflows with limits (WorkflowLimiter), attempts of handlers with limits
// (HandlerLimiter), starts that are merged by debounce and throttle (StartWindows), and the work of namespaces with quotas
// (Quotas).
//
// Quotas and Queue, the durable queue of a workflow's waiting runs, are pure: they start no goroutine and read no clock.
package limits
