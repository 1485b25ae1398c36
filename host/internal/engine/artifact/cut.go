package artifact

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/wfhost/wfhost/host/internal/wasm/instrument"
)

// Cut takes the data out of a module. It returns the SHA-256 of what is compiled of the module, which is everything else but
// custom sections without names, and the segments, in the order in which they are to be written.
//
// Modules with the same sum share their code: if Rewrite leaves the data out of what it makes of one of them (its Refusal is
// empty), then it makes the same of all others that Cut accepts, and only Module.Data differs. Whether a module's own functions
// ask for its data, as memory.init does, is not looked at here: that is a Refusal of all modules with this sum.
//
// Cut reports false where the engine has to write or to refuse the data: a segment is passive, lies outside of the memory, has a
// computed place, or is not well formed; and where Rewrite refuses the module for another reason that is not in its functions.
func Cut(wasm []byte) (code [sha256.Size]byte, data []instrument.Segment, ok bool) {
	h := sha256.New()
	idle, err := withoutCode(wasm, func(id byte, content []byte) {
		if id != secData && id != secCounts {
			h.Write(binary.BigEndian.AppendUint64([]byte{id}, uint64(len(content)))) // a hash takes everything
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
