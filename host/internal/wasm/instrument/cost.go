package instrument

// Ticks is the number of ticks of the counter in a unit of fuel.
const Ticks = 64

// class is a set of instructions with the same cost.
type class byte

const (
	free    class = iota // no machine code: block, loop, end; reading locals, constants
	move                 // sets a local, which is free except where control flow joins
	number               // adds, compares, shifts, converts
	product              // multiplies
	divide               // divides integers
	float                // computes with floating-point numbers
	root                 // divides floating-point numbers, or computes square roots
	regionLoad
	store
	branch // conditional
	jump   // unconditional
	table  // br_table
	call
	indirect
	global
	bulk   // moves or fills bytes or elements; besides the charge for each
	grow   // adds pages or elements, besides the charge for each: the engine leaves the guest's code for it
	vector // computes with vectors
	classes
)

// regionCosts is the cost of an instruction of each class, in ticks: its time in the code of wazero's compiler, with
// a nanosecond as the unit of fuel, fitted to programs in C, JavaScript and Go. Free instructions do nothing until
// another one uses their value.
var regionCosts = [classes]int64{
	free: 0, move: 2, number: 6, product: 16, divide: 80, float: 12, root: 128, regionLoad: 14, store: 20, branch: 14, jump: 4,
	table: 40, call: 80, indirect: 100, global: 6, bulk: 512, grow: 1600, vector: 32,
}

// group is a range of opcodes of one class, up to and including last.
type group struct {
	last byte
	of   class
}

// groups covers all opcodes (5.4), in ascending order.
var groups = []group{
	{0x00, jump}, {0x03, free}, {0x04, branch}, {0x0b, free}, {0x0c, jump}, {0x0d, branch}, {0x0e, table}, {0x0f, jump},
	{0x10, call}, {0x11, indirect}, {0x1a, free}, {0x1c, number}, {0x20, free}, {0x22, move}, {0x24, global}, {0x26, regionLoad},
	{0x35, regionLoad}, {0x3e, store}, {0x3f, number}, {0x40, grow}, {0x44, free}, // 0x40: memory.grow
	{0x5a, number}, {0x66, float}, // comparisons
	{0x6b, number}, {0x6c, product}, {0x70, divide}, // integers
	{0x7d, number}, {0x7e, product}, {0x82, divide}, {0x8a, number},
	{0x90, float}, {0x91, root}, {0x94, float}, {0x95, root}, // floating-point numbers
	{0x9e, float}, {0x9f, root}, {0xa2, float}, {0xa3, root}, {0xa6, float},
	{0xa7, number}, {0xab, float}, {0xad, number}, {0xbb, float}, {0xc4, number}, // conversions
	{0xd0, free}, {0xd2, number}, {0xff, free}, // the last two are 0xfc and 0xfd
}

// classOf is the class of each one-byte opcode.
var classOf = func() (of [256]class) {
	op := 0
	for _, g := range groups {
		for ; op <= int(g.last); op++ {
			of[op] = g.of
		}
	}
	return of
}()

// Cost returns the cost of an instruction, in ticks.
func Cost(op byte) int64 { return regionCosts[classOf[op]] }

// Instructions after 0xfc and 0xfd that cost more or less than the rest (5.4).
const (
	lastConversion              = 7
	dataDrop, elemDrop          = 9, 13
	tableGrow, tableSize        = 15, 16
	lastLoad, storeVector       = 10, 11
	regionConstant              = 12
	firstLane, lastLane         = 84, 87 // loads
	lastStoreLane, lastLoadZero = 91, 93
)

// CostFC returns the cost of an instruction after 0xfc, in ticks.
func CostFC(op uint32) int64 {
	switch {
	case op <= lastConversion:
		return regionCosts[float]
	case op == dataDrop, op == elemDrop, op == tableSize:
		return regionCosts[number]
	case op == tableGrow:
		return regionCosts[grow]
	}
	return regionCosts[bulk]
}

// CostFD returns the cost of an instruction after 0xfd, in ticks.
func CostFD(op uint32) int64 {
	switch {
	case op == regionConstant:
		return regionCosts[move]
	case op == storeVector, op > lastLane && op <= lastStoreLane:
		return regionCosts[store]
	case op <= lastLoad, op >= firstLane && op <= lastLane, op > lastStoreLane && op <= lastLoadZero:
		return regionCosts[regionLoad]
	}
	return regionCosts[vector]
}
