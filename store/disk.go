package store

// Disk describes the disk that holds a store.
type Disk struct {
	Path  string // the directory of the store
	Free  uint64 // bytes that the store may still take
	Total uint64 // bytes of the whole file system
	// Stalls counts the operations of the disk since the store was opened that took longer than two seconds, those that go on
	// included.
	Stalls uint64
}

// OnDisk is implemented by stores that can tell how much room is left for them.
type OnDisk interface {
	// Disk asks the file system. It takes about a microsecond. It returns errors.ErrUnsupported if there is no disk.
	Disk() (Disk, error)
}

// Failing is implemented by stores that fail by themselves: a table that cannot be written fails a store in which nobody writes.
type Failing interface {
	// Failed returns a channel that is closed when the store has failed.
	Failed() <-chan struct{}
	// Failure returns why, as an ErrFailed. It is called after Failed is closed.
	Failure() error
}
