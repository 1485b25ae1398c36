package store

import (
	"encoding/binary"
	"math"
)

// AppendState encodes a run's state.
func AppendState(dst []byte, x *RunState) []byte {
	e, from := newRecord(dst)
	e.uint(1, uint64(x.Run.Namespace))
	e.string(2, x.Run.ID)
	e.bytes(3, x.Incarnation[:])
	e.uint(4, uint64(x.Iteration))
	e.string(5, x.Workflow)
	e.uint(6, uint64(x.Version))
	e.bytes(7, x.Module[:])
	e.uint(8, uint64(x.Status))
	e.string(9, x.Reason)
	e.bytes(10, x.InputDigest[:])
	e.int(11, x.CreatedUnixMs)
	e.int(12, x.StartedUnixMs)
	e.int(13, x.UpdatedUnixMs)
	e.int(14, x.EndedUnixMs)
	e.int(15, x.WakeUnixMs)
	e.uint(16, uint64(x.Length))
	e.int(17, x.JournalBytes)
	e.uint(18, x.LogLines)
	e.uint(19, x.LogRecords)
	e.uint(20, uint64(x.Suspension.Seq))
	e.bool(21, x.Suspension.Poll)
	e.bool(22, x.Suspension.Events)
	e.bytes(23, appendHandles(nil, x.Suspension.Awaited))
	e.bool(24, x.Suspension.PollDue)
	e.int(25, x.Suspension.PollDueUnixMs)
	e.uint(26, uint64(x.Faults))
	e.uint(27, x.Output)
	e.string(28, joinAttributes(x.Attributes))
	e.string(29, x.Parent)
	e.bool(30, x.Deleted)
	e.int(31, x.StoredBytes)
	e.bool(32, x.Sealed)
	e.string(33, x.Schedule)
	e.int(34, x.NominalUnixMs)
	e.uint(35, uint64(x.Aside))
	e.string(36, x.Import)
	e.int(37, x.ImportUnixMs)
	e.uint(38, uint64(x.Slot))
	e.string(39, x.Memo)
	e.string(40, x.TraceParent)
	e.uint(41, uint64(x.Rested))
	e.uint(42, uint64(x.Kept))
	e.bytes(43, appendPast(nil, x.Past))
	e.uint(44, uint64(x.ID))
	e.uint(45, uint64(x.ParentIteration))
	e.uint(46, uint64(x.MayHaveBegun))
	return e.seal(from)
}

func appendHandles(dst []byte, handles []int64) []byte {
	for _, h := range handles {
		dst = binary.AppendVarint(dst, h)
	}
	return dst
}

// appendPast encodes past iterations: for each one its bytes, and its end as the difference from the end of the
// iteration before.
func appendPast(dst []byte, past []Past) []byte {
	at := int64(0)
	for _, p := range past {
		dst = binary.AppendVarint(binary.AppendVarint(dst, p.Bytes), p.EndedUnixMs-at)
		at = p.EndedUnixMs
	}
	return dst
}

func decodePast(b []byte) (past []Past) {
	at := int64(0)
	for len(b) > 0 && len(past) < MaxPast {
		bytes, n := binary.Varint(b)
		if n <= 0 {
			break
		}
		ms, m := binary.Varint(b[n:])
		if m <= 0 {
			break
		}
		at += ms
		past, b = append(past, Past{bytes, at}), b[n+m:]
	}
	return past
}

func decodeHandles(b []byte) (handles []int64) {
	for len(b) > 0 {
		h, n := binary.Varint(b)
		if n <= 0 {
			return handles
		}
		handles, b = append(handles, h), b[n:]
	}
	return handles
}

// DecodeState decodes what AppendState made.
func DecodeState(b []byte) (x RunState, err error) {
	err = decode("run state", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.Run.Namespace = NamespaceID(f.num)
		case 2:
			x.Run.ID = string(f.b)
		case 3:
			copy(x.Incarnation[:], f.b)
		case 4:
			x.Iteration = small(f.num)
		case 5:
			x.Workflow = string(f.b)
		case 6:
			x.Version = small(f.num)
		case 7:
			copy(x.Module[:], f.b)
		case 8:
			x.Status = Status(min(f.num, math.MaxUint8))
		case 9:
			x.Reason = string(f.b)
		case 10:
			copy(x.InputDigest[:], f.b)
		default:
			return decodeStateRest(&x, f)
		}
		return true
	})
	return x, err
}

func decodeStateRest(x *RunState, f field) bool {
	switch f.tag {
	case 11:
		x.CreatedUnixMs = f.int()
	case 12:
		x.StartedUnixMs = f.int()
	case 13:
		x.UpdatedUnixMs = f.int()
	case 14:
		x.EndedUnixMs = f.int()
	case 15:
		x.WakeUnixMs = f.int()
	case 16:
		x.Length = Seq(f.num)
	case 17:
		x.JournalBytes = f.int()
	case 18:
		x.LogLines = f.num
	case 19:
		x.LogRecords = f.num
	case 20:
		x.Suspension.Seq = Seq(f.num)
	case 21:
		x.Suspension.Poll = f.num != 0
	case 22:
		x.Suspension.Events = f.num != 0
	case 23:
		x.Suspension.Awaited = decodeHandles(f.b)
	case 24:
		x.Suspension.PollDue = f.num != 0
	case 25:
		x.Suspension.PollDueUnixMs = f.int()
	case 26:
		x.Faults = small(f.num)
	case 27:
		x.Output = f.num
	case 28:
		x.Attributes = splitAttributes(f.b)
	case 29:
		x.Parent = string(f.b)
	case 30:
		x.Deleted = f.num != 0
	case 31:
		x.StoredBytes = f.int()
	case 32:
		x.Sealed = f.num != 0
	case 33:
		x.Schedule = string(f.b)
	case 34:
		x.NominalUnixMs = f.int()
	case 35:
		x.Aside = Aside(min(f.num, math.MaxUint8))
	case 36:
		x.Import = string(f.b)
	case 37:
		x.ImportUnixMs = f.int()
	case 38:
		x.Slot = Slot(min(f.num, math.MaxUint8))
	case 39:
		x.Memo = string(f.b)
	case 40:
		x.TraceParent = string(f.b)
	default:
		return decodeStatePast(x, f)
	}
	return true
}

func decodeStatePast(x *RunState, f field) bool {
	switch f.tag {
	case 41:
		x.Rested = Seq(f.num)
	case 42:
		x.Kept = small(f.num)
	case 43:
		x.Past = decodePast(f.b)
	case 44:
		x.ID = IDOrigin(min(f.num, math.MaxUint8))
	case 45:
		x.ParentIteration = small(f.num)
	case 46:
		x.MayHaveBegun = Seq(f.num)
	default:
		return false
	}
	return true
}
