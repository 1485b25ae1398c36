package artifact

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

// Cut separates the data of a module from its code. It returns the SHA-256 of what is compiled, which is everything
// but the data and custom sections other than names, and the data segments in the order of writing.
//
// Modules with the same sum share their code: if Rewrite separates the data of one of them (its Refusal is empty),
// its result is the same for all modules with this sum that Cut accepts, except for Module.Data. Cut does not check
// whether functions use the data, as memory.init does: that is a Refusal of all modules with this sum.
//
// Cut returns false if the engine must write or refuse the data: a segment is passive, is out of bounds, has a
// computed offset, or is malformed. It also returns false if Rewrite refuses the module for another reason outside of
// its functions.
func Cut(wasm []byte) (code [sha256.Size]byte, data []instrument.Segment, ok bool) {
	h := sha256.New()
	idle, err := withoutCode(wasm, func(id byte, content []byte) {
		if id != secData && id != secCounts {
			h.Write(binary.BigEndian.AppendUint64([]byte{id}, uint64(len(content)))) // writing to a hash does not fail
			h.Write(content)
		}
	})
	if err != nil {
		return code, nil, false
	}
	r, err := instrument.Rewrite(idle, instrument.Options{})
	if err != nil || r.Refusal != "" {
		return code, nil, false
	}
	return [sha256.Size]byte(h.Sum(nil)), r.Data, true
}
