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
	return e.seal(from)
}

func appendHandles(dst []byte, handles []int64) []byte {
	for _, h := range handles {
		dst = binary.AppendVarint(dst, h)
	}
	return dst
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
	default:
		return false
	}
	return true
}

// AppendLogLine encodes a log line.
func AppendLogLine(dst []byte, x *LogLine) []byte {
	e, from := newRecord(dst)
	e.uint(1, x.Index)
	e.int(2, x.UnixMs)
	e.int(3, int64(x.Level))
	e.string(4, x.Step)
	e.uint(5, uint64(x.Attempt))
	e.string(6, x.Text)
	return e.seal(from)
}

// DecodeLogLine decodes what AppendLogLine made.
func DecodeLogLine(b []byte) (x LogLine, err error) {
	err = decode("log line", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.Index = f.num
		case 2:
			x.UnixMs = f.int()
		case 3:
			x.Level = int8(f.int())
		case 4:
			x.Step = string(f.b)
		case 5:
			x.Attempt = small(f.num)
		case 6:
			x.Text = string(f.b)
		default:
			return false
		}
		return true
	})
	return x, err
}

// AppendChunk encodes a piece of a run's output.
func AppendChunk(dst []byte, x *Chunk) []byte {
	e, from := newRecord(dst)
	e.uint(1, x.Index)
	e.int(2, x.UnixMs)
	e.string(3, x.Topic)
	e.bytes(4, x.Data)
	return e.seal(from)
}

// AppendCommand encodes a command.
func AppendCommand(dst []byte, x *Command) []byte {
	e, from := newRecord(dst)
	e.uint(1, uint64(x.Seq))
	e.bytes(2, x.ID.Incarnation[:])
	e.uint(3, uint64(x.ID.Iteration))
	e.uint(4, uint64(x.ID.Seq))
	e.uint(5, uint64(x.Kind))
	e.uint(6, uint64(x.To.Namespace))
	e.string(7, x.To.ID)
	e.bytes(8, x.ToIncarnation[:])
	e.uint(9, uint64(x.From.Namespace))
	e.string(10, x.From.ID)
	e.string(11, x.Name)
	e.bytes(12, x.Data)
	return e.seal(from)
}

// DecodeCommand decodes what AppendCommand made.
func DecodeCommand(b []byte) (x Command, err error) {
	err = decode("command", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.Seq = CommandSeq(f.num)
		case 2:
			copy(x.ID.Incarnation[:], f.b)
		case 3:
			x.ID.Iteration = small(f.num)
		case 4:
			x.ID.Seq = Seq(f.num)
		case 5:
			x.Kind = CommandKind(min(f.num, math.MaxUint8))
		case 6:
			x.To.Namespace = NamespaceID(f.num)
		case 7:
			x.To.ID = string(f.b)
		case 8:
			copy(x.ToIncarnation[:], f.b)
		case 9:
			x.From.Namespace = NamespaceID(f.num)
		case 10:
			x.From.ID = string(f.b)
		case 11:
			x.Name = string(f.b)
		case 12:
			x.Data = clone(f.b)
		default:
			return false
		}
		return true
	})
	return x, err
}
