package localnet

import "syscall"

// attributes give a process its own process group. The kernel kills the process when this one is
// killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
