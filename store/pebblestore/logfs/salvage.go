package logfs

// Salvage scans a log that can be read up to end, and returns the records after it whose chunks can all be read. cut is
// the readable part of the record that the end cuts, nil if it cuts none. The result cannot be trusted: it tells a
// person what is lost with the rest of the log.
func Salvage(b []byte, number uint32, end int) (cut []byte, records [][]byte) {
	var r assembly
	for at := 0; at < end; {
		rest := b[at:min(end, (at/blockBytes+1)*blockBytes)]
		c, ok := read(rest)
		if !ok { // the zeros at the end of a block
			at += len(rest)
			continue
		}
		r.add(&c, rest)
		at += c.size
	}
	cut, r = r.open, assembly{}
	for at := end; at < len(b); {
		rest := b[at:min(len(b), (at/blockBytes+1)*blockBytes)]
		c, ok := read(rest)
		switch {
		case ok && c.isEnd(number):
			return cut, r.whole
		case ok && c.kind > lastPlain && c.number == number:
			r.add(&c, rest)
			at += c.size
		case len(rest) < syncedHeader && isZero(rest):
			at += len(rest)
		default: // the next chunk may begin anywhere, and the current record has a gap
			r.open = nil
			at++
		}
	}
	return cut, r.whole
}

// assembly builds records from chunks.
type assembly struct {
	open  []byte // the unfinished record, nil if there is none
	whole [][]byte
}

// add adds a chunk, given the bytes that begin with it. It ignores chunks of a record whose beginning is missing.
func (r *assembly) add(c *chunk, b []byte) {
	payload := b[headerBytes(c.kind):c.size]
	switch (c.kind - 1) % 4 {
	case 0:
		r.open, r.whole = nil, append(r.whole, payload)
	case 1:
		r.open = append([]byte{}, payload...)
	case 2:
		if r.open != nil {
			r.open = append(r.open, payload...)
		}
	case 3:
		if r.open != nil {
			r.whole = append(r.whole, append(r.open, payload...))
		}
		r.open = nil
	}
}
