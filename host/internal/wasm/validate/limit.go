package validate

// Bounds of a module. In 114 modules from package registries, the largest function nests 3,289 blocks, has 33,000
// branches, 44 million branches times dominators, 2 million branches times parameters and locals, and 70,000 loops
// times parameters and locals. The largest module has 419,000 parameters and locals, and 990,000 loops times
// parameters and locals. No block has a function type. A Go module has a br_table with 895 targets. The bounds leave
// room above that. A single function within them can occupy a compiler for some ten seconds, with a gigabyte of
// memory. Against many such functions, the compiling process has limits of its own.
const (
	maxTypes          = 10_000        // a Go program has some dozens, C++ some thousands
	maxParams         = 128           // a million stop the compiler
	maxResults        = 32            // multi-value code returns a handful
	maxImports        = 256           // the host supplies fewer than a hundred
	maxFunctions      = 50_000        // a million stop the compiler
	maxTables         = 4             // one in practice
	maxGlobals        = 10_000        // linkers emit a handful, some languages one per constant
	maxExports        = 1_000         // each is a map entry in every instance
	maxElements       = 100_000       // segments, each an allocation
	maxSegments       = 100_000       // data segments, each an allocation
	maxLocals         = 4_000         // per function: 2^27 take 3 GiB
	maxNesting        = 5_000         // nested blocks in one function
	maxModuleValues   = 4_000_000     // parameters and locals of all functions, vectors count twice: 200 million take 1.6 GB
	maxJoins          = 100_000       // places in one function where control flow divides or joins
	maxJoinValues     = 3_000_000     // joins × (parameters and locals) of one function
	maxWays           = 200_000_000   // branches of one function × dominators: 14,000 consecutive ifs, some four seconds
	maxModuleWays     = 1_000_000_000 // the same, summed over the module
	maxLoopValues     = 150_000       // loops × (parameters, locals and loop parameters) of one function
	maxModuleLoops    = 2_000_000     // the same, summed over the module
	maxBlockTypes     = 10_000        // parameters and results of the blocks of one function that have a function type
	maxNaNs           = 50_000        // NaN computations of one function, vectors count twice (physics engine: 9,300)
	maxModuleNaNs     = 2_000_000     // the same, summed over the module (physics engine: 90,000)
	maxBranchTargets  = 8_192         // of one br_table: a million stop the compiler
	maxBodyBytes      = 1 << 20       // per function
	maxCustomBytes    = 8 << 20       // of all custom sections: names and debug information
	maxNameBytes      = 1 << 10       // of imports and exports
	maxPages          = 1024          // initial memory: 64 MiB, the limit of an instance
	pagesOfTheWorld   = 1 << 16       // of a 32-bit memory
	maxInitExpression = 1 << 10       // bytes of a constant expression
)
