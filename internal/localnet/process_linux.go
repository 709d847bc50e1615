package localnet

import "syscall"

// attributes give a process its own process group. The kernel kills the started process when the
// starting process is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
