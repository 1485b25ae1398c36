package abi

import "time"

// Limits of what crosses the boundary and of what one run may use. Each has its own error and is checked
// at the edge, before anything is accepted.
const (
	// MaxNameBytes bounds names of steps, sleeps, children, markers, handlers, signals: long enough for a
	// path with an index, short enough to stay inside one journal chunk and one line of a listing.
	MaxNameBytes = 256
	// MaxWorkflowBytes bounds workflow names, which are part of URLs, file names and keys.
	MaxWorkflowBytes = 128
	// MaxRunIDBytes bounds run ids, which are part of many keys of the store.
	MaxRunIDBytes = 128
	// MaxPayloadBytes bounds an input, a result, a signal, an option object: what is bigger belongs into an
	// object store, with its address as the payload.
	MaxPayloadBytes = 1 << 20
	// MaxReportBytes bounds the failure report of a body or step function. Decoding one takes up to ten times its size in the host's
	// memory. The host truncates the texts of a report over MaxPayloadBytes.
	MaxReportBytes = 8 << 20
	// BlobBytes is the size above which a payload is kept outside the journal, addressed by its content, so
	// that reading a journal stays cheap.
	BlobBytes = 256 << 10
	// MaxOptionBytes bounds an option object. That of a child, with its attributes and memo, is the only one that comes near it.
	MaxOptionBytes = 16 << 10
	// MaxDurationBytes bounds the text of a duration or instant: the longest canonical one has half of it.
	MaxDurationBytes = 64
	// MaxStepTimeoutMs bounds the time-out of one attempt, some 292 years: what a time.Duration holds.
	MaxStepTimeoutMs = int64(1<<63-1) / int64(time.Millisecond)
	// MaxAwaitHandles bounds one await: the answer is found by a scan over this many handles.
	MaxAwaitHandles = 1000
	// MaxEntries bounds the journal of one iteration, so that a replay stays below a second.
	MaxEntries = 50_000
	// SuggestContinueEntries is the length at which info starts to suggest continue_as_new.
	SuggestContinueEntries = 10_000
	// MaxJournalBytes bounds the journal of one iteration in memory and on disk.
	MaxJournalBytes = 64 << 20
	// DeliveryReserveShare is the part of MaxEntries and MaxJournalBytes (one in so many) that calls may not
	// use, so that what was started can still be resolved.
	DeliveryReserveShare = 10
	// RefusalReserve is how many calls that change nothing (refused ones, and a cancel of what was told or is running)
	// a journal records once its room for calls is used up. The next one ends the run with LIMIT: a guest that does
	// not read its errors cannot make a journal grow.
	RefusalReserve = 1000
	// MaxUnresolvedHandles bounds what one run waits for at a time: each costs memory while the run is active.
	MaxUnresolvedHandles = 10_000
	// MaxMemoryBytes bounds one instance's linear memory.
	MaxMemoryBytes = 64 << 20
	// MaxTableElements bounds each table of an instance, and what all tables of a module have in the beginning. An element
	// takes 8 bytes of the host's memory; the largest programs have some 100,000.
	MaxTableElements = 1 << 20
	// MaxFuel bounds what a workflow computes between two waits: some ten seconds. Each instruction that it executes counts as
	// what it takes on a current processor, in nanoseconds, about. That is counted in the module itself, so that a replay and
	// every other host come to the same end. A byte that a call copies, scans or fills counts as one.
	MaxFuel = 10_000_000_000
	// MaxSegmentCPU bounds the time that MaxFuel may take. A host that needs longer gives the activation up and
	// tries again later.
	MaxSegmentCPU = 60 * time.Second
	// MaxHostCalls bounds the calls between two waits: far more than any guest needs, and less than a second.
	MaxHostCalls = 1_000_000
	// MaxLogBytes bounds the log of one activation; what is over is dropped for good, never an error.
	MaxLogBytes = 64 << 10
	// MaxModuleBytes bounds an uploaded module.
	MaxModuleBytes = 32 << 20
	// MaxPendingSignalBytes bounds the payloads of signals that a run has accepted and not taken.
	MaxPendingSignalBytes = 8 << 20
	// MaxPendingSignals bounds their number. To receive one takes two entries, beside that of its acceptance: so the workflow can
	// receive all of them in one iteration, and still has a third of MaxEntries for other calls.
	MaxPendingSignals = 10_000
	// PendingNameShare is the part of both limits (one in so many) that the signals of one name may use, so that a flood of
	// them leaves room for the others.
	PendingNameShare = 2
	// MaxSignalKeys is how many idempotency keys of signals a run remembers, the newest.
	MaxSignalKeys = 10_000
	// MaxUpdateNameBytes bounds the name of an update, which is a part of the name of a signal.
	MaxUpdateNameBytes = MaxNameBytes - len(UpdatePrefix)
	// MaxPendingUpdates bounds the updates that an iteration of a run has accepted and not answered. Somebody waits for each of
	// them, and a workflow in Go has a goroutine for each that it has taken.
	MaxPendingUpdates = 1000
	// MaxUnrecordedMarkers bounds the markers for which an iteration remembers that an older journal goes on without them.
	// Those that have an entry are bounded by the journal.
	MaxUnrecordedMarkers = 10_000
	// MaxAttributes bounds the attributes of a run, which are part of every listing.
	MaxAttributes = 64
	// MaxAttributeBytes bounds the value of an attribute.
	MaxAttributeBytes = 1024
	// MaxMemoBytes bounds the memo of a run, as JSON without white space. It is part of the run's state, which each commit of
	// the run writes, and of each list that has the run.
	MaxMemoBytes = 2 << 10
	// MaxWorkflows bounds the workflows that one module lists, each of which gets a record with each upload and a line in each
	// listing. Programs have some dozens at most.
	MaxWorkflows = 256
	// MaxChildDepth bounds how deep runs may start runs, so that a mistake does not fill the store.
	MaxChildDepth = 16
	// MaxLiveChildren bounds the children of one run that have not ended, as far as the workflow has been told. Fan-outs have
	// some hundreds; more wait until some of them have ended. It halves with each level below the first run, down to one, so
	// that runs that start runs come to a standstill: see LiveChildren.
	MaxLiveChildren = 1000
	// CancelGraceMs is what a run that takes a cancel gets to clean up after its deadline.
	CancelGraceMs = 60_000
	// MaxUnixMs is the last millisecond of year 9999 (UTC): times beyond it have no RFC 3339 text.
	MaxUnixMs = 253402300799999
	// MaxPollTickTime bounds the sum of clock-only polls of at most a millisecond that are answered at once
	// within one activation, of virtual time: Go polls so around garbage collections.
	MaxPollTickTime = time.Second
	// MaxLagMs is by how many milliseconds the host's clock may be ahead of the guest's where the guest reads it. The guest's
	// clock is brought up to the host's beyond that, by an entry in the journal, which an ordinary wake must not cost.
	MaxLagMs = 1000
	// MaxPollSubscriptions bounds one poll_oneoff: a Go guest uses two.
	MaxPollSubscriptions = 1024
	// MaxIOVectors bounds the buffers of one fd_read or fd_write, as IOV_MAX does on Linux: those after it are left
	// for the next call, and the count says so.
	MaxIOVectors = 1024
	// MaxIOBytes bounds the bytes of one fd_write in the same way. A guest that names each byte of its memory once is
	// never cut short.
	MaxIOBytes = MaxMemoryBytes
	// MinUnixMs is the first millisecond of year 0 (UTC): instants before it are legal, but have no RFC 3339 text, and
	// are shown as this one.
	MinUnixMs = -62167219200000
)

// LiveChildren returns how many live children a run may have that stands depth runs below the first one, where the first one may
// have most: half as many with each level, and at least one, so that runs which start two children each come to a standstill
// after some thousands instead of 2 to the power of MaxChildDepth.
func LiveChildren(most, depth int) int { return max(most>>min(depth, MaxChildDepth), 1) }
