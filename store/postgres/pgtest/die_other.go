//go:build !linux

package pgtest

import "syscall"

// dieWithParent would end the server if the test binary is killed, which only Linux can do.
func dieWithParent(*syscall.SysProcAttr) {}
