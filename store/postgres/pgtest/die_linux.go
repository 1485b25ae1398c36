package pgtest

import "syscall"

// dieWithParent ends the server if the test binary is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
