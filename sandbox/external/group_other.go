//go:build !unix

package external

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup kills a process.
func killGroup(p *os.Process) { _ = p.Kill() }
