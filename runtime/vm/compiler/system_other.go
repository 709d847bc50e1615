//go:build !linux

package compiler

import "syscall"

// Self is empty: nothing here names the running binary for sure, so nodes compile in their own
// process.
const Self = ""

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// LowPriority does nothing where a priority is that of the process.
func LowPriority() {}

func lower() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, backgroundNice) }

func prepareChild() {}

func dataSize() int64 { return 0 }

func limitMemory(int64, int64) {}
