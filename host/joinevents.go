package host

// JoinEvents returns Events that call the functions of all arguments in order, such as the events of package metrics
// and the embedder's own.
func JoinEvents(all ...Events) (joined Events) {
	for i := range all {
		e := &all[i]
		joined = Events{
			RunStarted:        join(joined.RunStarted, e.RunStarted),
			RunEnded:          join2(joined.RunEnded, e.RunEnded),
			RunDeleted:        join(joined.RunDeleted, e.RunDeleted),
			RunStuck:          join(joined.RunStuck, e.RunStuck),
			RunCommitted:      join(joined.RunCommitted, e.RunCommitted),
			Wake:              join(joined.Wake, e.Wake),
			Activation:        join(joined.Activation, e.Activation),
			AttemptEnded:      join(joined.AttemptEnded, e.AttemptEnded),
			Commit:            join(joined.Commit, e.Commit),
			Request:           join(joined.Request, e.Request),
			UploadRefused:     join2(joined.UploadRefused, e.UploadRefused),
			DiskChanged:       join(joined.DiskChanged, e.DiskChanged),
			StoreFailed:       join(joined.StoreFailed, e.StoreFailed),
			StoreRaised:       join2(joined.StoreRaised, e.StoreRaised),
			PartitionAcquired: join(joined.PartitionAcquired, e.PartitionAcquired),
			PartitionLost:     join2(joined.PartitionLost, e.PartitionLost),
			HostFault:         join(joined.HostFault, e.HostFault),
			GuestWaits:        join(joined.GuestWaits, e.GuestWaits),
		}
	}
	return joined
}

// join returns a function that calls both, or nil if both are nil, so that unused events cost nothing.
func join[A any](f, g func(A)) func(A) {
	if f == nil || g == nil {
		return either(f, g, f == nil)
	}
	return func(a A) {
		f(a)
		g(a)
	}
}

func join2[A, B any](f, g func(A, B)) func(A, B) {
	if f == nil || g == nil {
		return either(f, g, f == nil)
	}
	return func(a A, b B) {
		f(a, b)
		g(a, b)
	}
}

func either[F any](f, g F, second bool) F {
	if second {
		return g
	}
	return f
}
