package calls

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf16"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
)

// Error numbers of WASI preview 1 (the witx type errno).
const (
	errnoSuccess = 0
	errnoAgain   = 6
	errnoBadf    = 8
	errnoInval   = 28
	errnoNoent   = 44
	errnoNosys   = 52
)

// File types of WASI preview 1 (the witx type filetype), and the flag of a non-blocking descriptor.
const (
	fileCharacter = 2
	fileSocket    = 6
	flagNonblock  = 4
)

// Layout of subscription (48 bytes) and event (32 bytes) of WASI preview 1, little endian:
//
//	subscription: userdata u64 @0, type u8 @8; clock: id u32 @16, timeout u64 @24, flags u16 @40; fd u32 @16
//	event:        userdata u64 @0, errno u16 @8, type u8 @10, nbytes u64 @16
const (
	subscriptionBytes = 48
	eventBytes        = 32
	vectorBytes       = 8 // pointer and length
	eventClock        = 0
	eventRead         = 1
	clockRealtime     = 0
	clockAbsolute     = 1
)

func (f *Frame) put32(ptr, v uint32) { binary.LittleEndian.PutUint32(f.view(ptr, 4), v) }
func (f *Frame) put64(ptr uint32, v uint64) {
	binary.LittleEndian.PutUint64(f.view(ptr, 8), v)
}

func wasiFuncs() map[string]Func {
	none := func(f *Frame) uint64 { // no environment
		f.put32(f.u32(0), 0)
		f.put32(f.u32(1), 0)
		return errnoSuccess
	}
	ok := func(*Frame) uint64 { return errnoSuccess }
	m := map[string]Func{
		"args_get": argsGet, "args_sizes_get": argsSizesGet, "environ_get": ok, "environ_sizes_get": none, "sched_yield": ok,
		"clock_res_get":  func(f *Frame) uint64 { f.put64(f.u32(1), 1e6); return errnoSuccess },
		"clock_time_get": clockTimeGet,
		"random_get":     func(f *Frame) uint64 { f.random(); return errnoSuccess },
		"fd_fdstat_get":  fdStatGet, "fd_fdstat_set_flags": ok,
		"fd_read": fdRead, "fd_write": fdWrite, "poll_oneoff": pollOneoff,
		"fd_close": func(f *Frame) uint64 { return standard(f.u32(0)) },
		"proc_exit": func(f *Frame) uint64 {
			f.Guest.Halt(&engine.Exit{Code: f.u32(0)})
			return 0
		},
		"proc_raise": func(f *Frame) uint64 {
			f.Guest.Halt(&engine.Trap{Kind: engine.TrapGuest, Message: fmt.Sprintf("the workflow raised signal %d", f.u32(0))})
			return 0
		},
	}
	for name := range abi.WASIFunctions {
		if m[name] == nil { // there are no files and no sockets
			errno := uint64(errnoBadf)
			if name[0] == 's' {
				errno = errnoNosys
			} else if strings.HasPrefix(name, "path_") { // for every directory descriptor
				errno = errnoNoent
			}
			m[name] = func(*Frame) uint64 { return errno }
		}
	}
	return m
}

// argsSizesGet writes the number of arguments and their bytes, including the terminating zero of each.
func argsSizesGet(f *Frame) uint64 {
	n, size := 0, 0
	if name := f.Host.Program(); name != "" {
		n, size = 1, len(name)+1
	}
	f.put32(f.u32(0), uint32(n))
	f.put32(f.u32(1), uint32(size))
	return errnoSuccess
}

// argsGet writes the address of the program's name, and the name.
func argsGet(f *Frame) uint64 {
	name := f.Host.Program()
	if name == "" {
		return errnoSuccess
	}
	f.put32(f.u32(0), f.u32(1))
	b := f.view(f.u32(1), uint32(len(name)+1))
	b[copy(b, name)] = 0
	return errnoSuccess
}

func standard(fd uint32) uint64 {
	if fd <= abi.EventsFD {
		return errnoSuccess
	}
	return errnoBadf
}

func clockTimeGet(f *Frame) uint64 {
	ns := f.Host.MonoNs()
	if f.u32(0) == clockRealtime {
		ns = f.Host.WallNs()
	}
	f.put64(f.u32(2), uint64(ns))
	return errnoSuccess
}

func fdStatGet(f *Frame) uint64 {
	var b [24]byte
	switch fd := f.u32(0); {
	case fd < abi.EventsFD:
		b[0] = fileCharacter
	case fd == abi.EventsFD:
		b[0], b[2] = fileSocket, flagNonblock
	default:
		return errnoBadf
	}
	for i := 8; i < len(b); i++ { // all rights
		b[i] = 0xff
	}
	copy(f.view(f.u32(1), uint32(len(b))), b[:])
	return errnoSuccess
}

// vectors calls visit for the first abi.MaxIOVectors buffers of an iovec list, in portions, until visit returns
// false.
func (f *Frame) vectors(ptr, n uint32, visit func(b []byte) bool) {
	for i := range min(n, abi.MaxIOVectors) {
		f.work(vectorBytes)
		v := f.view(ptr+vectorBytes*i, vectorBytes)
		if !f.portions(f.view(binary.LittleEndian.Uint32(v), binary.LittleEndian.Uint32(v[4:])), visit) {
			return
		}
	}
}

func fdRead(f *Frame) uint64 {
	switch f.u32(0) {
	case 0:
	case abi.EventsFD:
		return errnoAgain // it can only be polled; next_event returns the events
	default:
		return errnoBadf
	}
	total := 0
	f.vectors(f.u32(1), f.u32(2), func(b []byte) bool {
		n := f.Host.Stdin(b)
		total += n
		return n == len(b)
	})
	f.put32(f.u32(3), uint32(total))
	return errnoSuccess
}

func fdWrite(f *Frame) uint64 {
	fd := f.u32(0)
	if fd != 1 && fd != 2 {
		return errnoBadf
	}
	total := uint32(0)
	f.vectors(f.u32(1), f.u32(2), func(b []byte) bool {
		b = b[:min(len(b), abi.MaxIOBytes-int(total))]
		f.Host.Output(fd, b)
		total += uint32(len(b))
		return total < abi.MaxIOBytes
	})
	f.put32(f.u32(3), total)
	return errnoSuccess
}

// pollOneoff blocks the guest. The answer holds one event: for the clock that is due first, or for the events
// descriptor.
func pollOneoff(f *Frame) uint64 {
	in, out, n, count := f.u32(0), f.u32(1), f.u32(2), f.u32(3)
	if n == 0 || n > abi.MaxPollSubscriptions {
		return errnoInval
	}
	var p engine.Poll
	var clockData, eventsData uint64
	subs := f.view(in, n*subscriptionBytes)
	f.work(len(subs))
	for ; len(subs) > 0; subs = subs[subscriptionBytes:] {
		data := binary.LittleEndian.Uint64(subs)
		switch {
		case subs[8] == eventClock:
			ns := f.timeout(subs)
			if !p.HasClock || ns < p.TimeoutNs {
				p.HasClock, p.TimeoutNs, clockData = true, ns, data
			}
		case subs[8] == eventRead && binary.LittleEndian.Uint32(subs[16:]) == abi.EventsFD:
			p.Events, eventsData = true, data
		}
	}
	if !p.HasClock && !p.Events {
		return errnoInval
	}
	ready, err := f.Host.Poll(p)
	if err != nil {
		f.Guest.Halt(err)
	}
	var ev [eventBytes]byte
	if ready == engine.ReadyEvents {
		binary.LittleEndian.PutUint64(ev[:], eventsData)
		ev[10] = eventRead
		binary.LittleEndian.PutUint64(ev[16:], 8)
	} else {
		binary.LittleEndian.PutUint64(ev[:], clockData)
	}
	copy(f.view(out, eventBytes), ev[:])
	f.put32(count, 1)
	return errnoSuccess
}

// timeout returns the time from now until a clock subscription is due.
func (f *Frame) timeout(sub []byte) int64 {
	ns := binary.LittleEndian.Uint64(sub[24:])
	if binary.LittleEndian.Uint16(sub[40:])&clockAbsolute == 0 {
		return difference(ns, 0)
	}
	if binary.LittleEndian.Uint32(sub[16:]) == clockRealtime {
		return difference(ns, uint64(f.Host.WallNs()))
	}
	return difference(ns, uint64(f.Host.MonoNs()))
}

// difference returns a - b, saturated to an int64: a timeout that is too long becomes the longest one, and never lies
// in the past.
func difference(a, b uint64) int64 {
	if a < b {
		return -int64(min(b-a, math.MaxInt64))
	}
	return int64(min(a-b, math.MaxInt64))
}

// envFuncs returns AssemblyScript's abort and seed.
func envFuncs() map[string]Func {
	return map[string]Func{
		"abort": func(f *Frame) uint64 {
			f.Guest.Halt(&engine.Trap{Kind: engine.TrapGuest, Message: fmt.Sprintf("abort: %s (%s:%d:%d)",
				f.utf16(f.u32(0)), f.utf16(f.u32(1)), f.u32(2), f.u32(3))})
			return 0
		},
		"seed": func(f *Frame) uint64 {
			var b [8]byte
			f.work(len(b))
			f.Host.Random(b[:])
			return math.Float64bits(float64(binary.LittleEndian.Uint64(b[:])>>11) / (1 << 53))
		},
	}
}

// maxAbortBytes bounds the message of an abort.
const maxAbortBytes = 4096

// utf16 reads an AssemblyScript string. Its length in bytes is stored 4 bytes before it.
func (f *Frame) utf16(ptr uint32) string {
	if ptr < 4 {
		return ""
	}
	n := min(binary.LittleEndian.Uint32(f.view(ptr-4, 4)), maxAbortBytes)
	b := f.view(ptr, n&^1)
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return string(utf16.Decode(units))
}
