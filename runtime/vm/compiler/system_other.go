//go:build !linux

package compiler

import "syscall"

// Self is empty: this system has no reliable name for the running binary. Nodes compile in their
// own process.
const Self = ""

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// LowPriority does nothing on systems where threads have no priority of their own.
func LowPriority() {}

func lower() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, backgroundNice) }

func prepareChild() {}

func dataSize() int64 { return 0 }

func limitMemory(int64, int64) {}
