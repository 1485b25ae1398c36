package validate

// Bounds of a module. Of 114 modules of package registries, the largest function nests 3,289 blocks, has 33,000 branches,
// 44 million of them times dominators, 2 million times parameters and locals, and 70,000 loops times these; the largest
// module has 419,000 parameters and locals, and 990,000 loops times these; no block has a type of functions. A module of Go
// has a br_table of 895 targets. The bounds leave room above that. One function within them can keep a compiler busy for
// some ten seconds, with a gigabyte: a process that is killed protects from many of them.
const (
	maxTypes          = 10_000        // a Go program has some dozens, C++ some thousands
	maxParams         = 128           // a million of them stop the compiler
	maxResults        = 32            // multi-value code returns a handful
	maxImports        = 256           // the host supplies fewer than a hundred
	maxFunctions      = 50_000        // a million stop the compiler
	maxTables         = 4             // one in practice
	maxGlobals        = 10_000        // linkers emit a handful, some languages one per constant
	maxExports        = 1_000         // each is a map entry in every instance
	maxElements       = 100_000       // segments, each an allocation
	maxSegments       = 100_000       // data segments, likewise
	maxLocals         = 4_000         // of one function: 2^27 take 3 GiB
	maxNesting        = 5_000         // of blocks in one function
	maxModuleValues   = 4_000_000     // parameters and locals of all functions, vectors twice: 200 million take 1.6 GB
	maxJoins          = 100_000       // places of one function where control flow divides or joins
	maxJoinValues     = 3_000_000     // the same, times its parameters and locals
	maxWays           = 200_000_000   // branches of one function × dominators: 14,000 ifs after each other, some four seconds
	maxModuleWays     = 1_000_000_000 // the same, summed over the module
	maxLoopValues     = 150_000       // loops × (parameters and locals, and what loops take) of one function
	maxModuleLoops    = 2_000_000     // the same, summed over the module
	maxBlockTypes     = 10_000        // parameters and results of the blocks of one function, where they are not one result
	maxNaNs           = 50_000        // instructions of a function whose NaNs are made canonical, two a vector (physics: 9,300)
	maxModuleNaNs     = 2_000_000     // the same, summed over the module; it has 90,000
	maxBranchTargets  = 8_192         // of one br_table: a million stop the compiler
	maxBodyBytes      = 1 << 20       // of one function
	maxCustomBytes    = 8 << 20       // of all custom sections: names and debug information
	maxNameBytes      = 1 << 10       // of imports and exports
	maxPages          = 1024          // 64 MiB of memory at the start, what an instance may have
	pagesOfTheWorld   = 1 << 16       // of a 32-bit memory
	maxInitExpression = 1 << 10       // bytes of a constant expression
)
