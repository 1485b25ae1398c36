package instrument

// Ticks is how many ticks of the counter are a unit of fuel.
const Ticks = 64

// class is a class of instructions that cost the same.
type class byte

const (
	free    class = iota // leaves no machine code: block, loop, end; reading locals, constants
	move                 // sets a local, which is free but where ways meet
	number               // adds, compares, shifts, converts
	product              // multiplies
	divide               // divides integers
	float                // computes with floating-point numbers
	root                 // divides them, or draws roots
	regionLoad
	store
	branch // with a condition
	jump   // without
	table  // br_table
	call
	indirect
	global
	bulk   // moves or fills bytes or elements, beside what it pays for each
	grow   // adds pages or elements, beside what it pays for each: the engine's code leaves the guest's for it
	vector // computes with vectors
	classes
)

// regionCosts is what an instruction of each class costs, in ticks: what it takes in the code that wazero's compiler makes,
// where a unit of fuel is a nanosecond, as fitted to programs in C, JavaScript and Go. Those that are free do nothing until
// another one uses them.
var regionCosts = [classes]int64{
	free: 0, move: 2, number: 6, product: 16, divide: 80, float: 12, root: 128, regionLoad: 14, store: 20, branch: 14, jump: 4,
	table: 40, call: 80, indirect: 100, global: 6, bulk: 512, grow: 1600, vector: 32,
}

// group is opcodes up to one, all of a class.
type group struct {
	last byte
	of   class
}

// groups are all opcodes (5.4), in their order.
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
	{0xd0, free}, {0xd2, number}, {0xff, free}, // the last ones are 0xfc and 0xfd
}

// classOf is the class of each opcode of one byte.
var classOf = func() (of [256]class) {
	op := 0
	for _, g := range groups {
		for ; op <= int(g.last); op++ {
			of[op] = g.of
		}
	}
	return of
}()

// Cost returns what an instruction costs, in ticks.
func Cost(op byte) int64 { return regionCosts[classOf[op]] }

// Instructions after 0xfc and 0xfd that differ from the others (5.4).
const (
	lastConversion              = 7
	dataDrop, elemDrop          = 9, 13
	tableGrow, tableSize        = 15, 16
	lastLoad, storeVector       = 10, 11
	regionConstant              = 12
	firstLane, lastLane         = 84, 87 // loads
	lastStoreLane, lastLoadZero = 91, 93
)

// CostFC returns what an instruction after 0xfc costs.
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

// CostFD returns what an instruction after 0xfd costs.
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
