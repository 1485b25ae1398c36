#include "textflag.h"

// func memoryPages() int32
TEXT ·memoryPages(SB), NOSPLIT, $0-4
	Get SP
	CurrentMemory
	I32Store ret+0(FP)
	RET

// func current() uintptr
TEXT ·current(SB), NOSPLIT, $0-8
	MOVD g, ret+0(FP)
	RET

// func noEvent(timeoutNs int64) int64
TEXT ·noEvent(SB), NOSPLIT, $0-16
	MOVD $0, ret+8(FP)
	RET

// func pause()
TEXT ·pause(SB), NOSPLIT, $0-0
	MOVD $·pausedSP(SB), R0
	MOVD SP, 0(R0)
	MOVD $·thawStack+256(SB), SP
	I32Const $1
	Set PAUSE
	RETUNWIND

// func thaw()
TEXT ·thaw(SB), NOSPLIT, $0-0
	MOVD $·pausedSP(SB), R0
	MOVD 0(R0), SP
	MOVD $0, 0(R0)
	MOVD $·thawStack(SB), R0
	Get R0
	I32WrapI64
	I32Const $0
	I32Const $512
	MemoryFill
	RETUNWIND
