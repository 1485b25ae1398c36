package store

import "math"

// AppendLogLine encodes a log line.
func AppendLogLine(dst []byte, x *LogLine) []byte {
	e, from := newRecord(dst)
	e.uint(1, x.Index)
	e.int(2, x.UnixMs)
	e.int(3, int64(x.Level))
	e.string(4, x.Step)
	e.uint(5, uint64(x.Attempt))
	e.string(6, x.Text)
	e.bool(7, x.Sealed)
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
		case 7:
			x.Sealed = f.num != 0
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
	e.bool(5, x.Sealed)
	return e.seal(from)
}

// DecodeChunk decodes what AppendChunk made.
func DecodeChunk(b []byte) (x Chunk, err error) {
	err = decode("output", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.Index = f.num
		case 2:
			x.UnixMs = f.int()
		case 3:
			x.Topic = string(f.b)
		case 4:
			x.Data = clone(f.b)
		case 5:
			x.Sealed = f.num != 0
		default:
			return false
		}
		return true
	})
	return x, err
}

// AppendHolder encodes the holder of a token.
func AppendHolder(dst []byte, x *HookHolder) []byte {
	e, from := newRecord(dst)
	e.uint(1, uint64(x.Run.Namespace))
	e.string(2, x.Run.ID)
	e.bytes(3, x.Incarnation[:])
	e.uint(4, uint64(x.Iteration))
	e.int(5, x.Handle)
	return e.seal(from)
}

// DecodeHolder decodes what AppendHolder made.
func DecodeHolder(b []byte) (x HookHolder, err error) {
	err = decode("holder", b, func(f field) bool {
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
			x.Handle = f.int()
		default:
			return false
		}
		return true
	})
	return x, err
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
	e.bool(13, x.Sealed)
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
		case 13:
			x.Sealed = f.num != 0
		default:
			return false
		}
		return true
	})
	return x, err
}
