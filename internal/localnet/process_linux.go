package localnet

import "syscall"

// attributes give a process a group of its own, and have it killed when this one is.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
