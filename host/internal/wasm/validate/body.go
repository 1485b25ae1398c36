package validate

import "github.com/wfhost/wfhost/host/internal/wasm"

func (s *scanner) function() error {
	b := body{values: weighAll(s.types[s.defined[s.bodies]].Params), open: s.open[:0]}
	b.join(joinsOfFunction)
	defer func() { s.open = b.open }()
	n, err := s.count("groups of locals", maxLocals, 2)
	if err != nil {
		return err
	}
	for range n {
		c, err := s.u32("locals")
		if err != nil {
			return err
		}
		b.locals += int64(c)
		if b.locals > maxLocals {
			return s.over("a function has too many locals", maxLocals, b.locals)
		}
		t, err := s.valueType("locals")
		if err != nil {
			return err
		}
		b.values += weigh(t, int64(c))
	}
	if err := s.instructions("a function", &b); err != nil {
		return err
	}
	return s.sums.add(&s.reader, &b)
}

// instructions scans to the end of an expression or function.
func (s *scanner) instructions(what string, b *body) error {
	for nesting := 1; nesting > 0; {
		op, err := s.byte(what)
		if err != nil {
			return err
		}
		switch {
		case op == opEnd:
			nesting--
			b.end()
		case op >= opBlock && op <= opIf:
			nesting++
			if nesting > maxNesting {
				return s.over("blocks are nested too deeply", maxNesting, int64(nesting))
			}
			err = s.blockType(op, b)
		case op == opPrefixFC:
			err = s.prefixFC(what, b)
		case op == opPrefixFD:
			err = s.prefixFD(what, b)
		default:
			b.computes(wasm.KindOf(op), 1)
			err = s.immediate(op, what, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// blockType reads a block type: none, a value type, or the index of a type (5.4.1), as a signed number of 33 bits. It
// refuses the further negative numbers that the engine knows, which are followed by more bytes.
func (s *scanner) blockType(op byte, b *body) error {
	const what = "a block"
	if s.left() > 0 && s.b[s.at] == blockEmpty {
		s.at++
		b.begin(op, nil)
		return nil
	}
	if s.left() > 0 && s.b[s.at]&0xc0 == blockEmpty { // a negative number of one byte
		b.begin(op, nil)
		_, err := s.valueType(what)
		return err
	}
	i, err := s.u32(what)
	if err == nil && s.b[s.at-1]&0x40 != 0 {
		return s.bad("unknown value type", "%s has a type that is neither a value's nor an index", what)
	}
	if err == nil && int64(i) >= maxTypes {
		return s.over("the type of a block", maxTypes, int64(i))
	}
	if err == nil && int(i) < len(s.types) { // otherwise the engine refuses it
		b.begin(op, &s.types[i])
	}
	return err
}

// blockEmpty is the block type () -> ().
const blockEmpty = 0x40

// Opcodes that the scanner tells apart (WebAssembly core 2.0, 5.4).
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opSelectTyped  = 0x1c
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opPrefixFC     = 0xfc
	opPrefixFD     = 0xfd
)

// immediate skips the operands of a one-byte opcode.
func (s *scanner) immediate(op byte, what string, b *body) error {
	switch {
	case op == opUnreachable, op == opReturn:
		b.dead = true
		return nil
	case op == opElse:
		b.otherwise()
		return nil
	case op == opNop, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == opRefIsNull:
		return nil // nop, drop, select, numeric
	case op == opBr, op == opBrIf:
		label, err := s.u32(what)
		b.branch(label)
		if op == opBrIf {
			b.join(1)
		}
		b.dead = b.dead || op == opBr
		return err
	case op == opRefFunc:
		b.join(1)
		_, err := s.u32(what)
		return err
	case op == opCall, op >= 0x20 && op <= 0x26:
		_, err := s.u32(what) // a function, local, global or table
		return err
	case op == opBrTable:
		return s.brTable(b)
	case op == opCallIndirect:
		return s.indexes(what, 2)
	case op == opSelectTyped:
		_, err := s.typeList("types of select", maxResults)
		return err
	case op >= 0x28 && op <= 0x3e: // loads and stores: alignment, offset
		return s.indexes(what, 2)
	case op == opMemoryGrow:
		b.join(joinsOfGrow)
		return s.skip(1, what)
	case op == opMemorySize:
		return s.skip(1, what)
	case op == opRefNull:
		_, err := s.valueType("a null")
		return err
	case op == opI32Const:
		return s.skipLEB(what, 32)
	case op == opI64Const:
		return s.skipLEB(what, 64)
	case op == opF32Const:
		return s.skip(4, what)
	case op == opF64Const:
		return s.skip(8, what)
	}
	return s.bad("unknown instruction", "0x%02x; exceptions, tail calls and garbage collection are not supported", op)
}

func (s *scanner) indexes(what string, n int) error {
	for range n {
		if _, err := s.u32(what); err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) brTable(b *body) error {
	n, err := s.count("targets of a br_table", maxBranchTargets, 1)
	if err != nil {
		return err
	}
	for range n + 1 {
		label, err := s.u32("a br_table")
		if err != nil {
			return err
		}
		b.joins++
		b.branch(label)
	}
	b.dead = true
	return nil
}

// prefixFC skips saturating conversions (0 to 7), bulk memory (8 to 14) and table instructions (15 to 17).
func (s *scanner) prefixFC(what string, b *body) error {
	op, err := s.u32(what)
	if err != nil {
		return err
	}
	switch {
	case op <= 7:
		return nil
	case op == 8, op == 10, op == 12, op == 14: // memory.init, memory.copy, table.init, table.copy
		b.join(joinsOfBulk)
		return s.indexes(what, 2)
	case op == 15: // table.grow
		b.join(joinsOfGrow)
		return s.indexes(what, 1)
	case op == 11, op == 17: // memory.fill, table.fill
		b.join(joinsOfBulk)
		return s.indexes(what, 1)
	case op <= 17:
		return s.indexes(what, 1)
	}
	return s.bad("unknown instruction", "0xfc %d", op)
}

// lastSIMD is the last instruction of fixed-width SIMD; relaxed SIMD begins after it.
const lastSIMD = 0xff

// prefixFD skips fixed-width SIMD.
func (s *scanner) prefixFD(what string, b *body) error {
	op, err := s.u32(what)
	if err != nil {
		return err
	}
	b.computes(wasm.OfVector(op), 2)
	switch {
	case op <= 11, op == 92, op == 93: // loads and stores
		return s.indexes(what, 2)
	case op == 12, op == 13: // v128.const, i8x16.shuffle
		return s.skip(16, what)
	case op >= 21 && op <= 34: // lanes
		return s.skip(1, what)
	case op >= 84 && op <= 91: // loads and stores of a lane
		if err := s.indexes(what, 2); err != nil {
			return err
		}
		return s.skip(1, what)
	case op <= lastSIMD:
		return nil
	}
	return s.bad("unknown instruction", "0xfd %d; relaxed SIMD is not supported", op)
}
