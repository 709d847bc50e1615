package compiler

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// Self names the running binary. The name stays valid if the binary's file was replaced or removed.
const Self = "/proc/self/exe"

// attributes returns the process attributes of a child. The child gets no signals of the terminal.
// The child dies with the thread that started the child, and that thread lives as long as the pool.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// LowPriority lowers the priority of the calling thread.
func LowPriority() {
	// On Linux this sets the priority of the current thread.
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), 10)
}

// lower permanently gives the background priority to all threads of this process and all threads
// that they start. lower does nothing unless this process leads its process group, which every
// child does (see attributes). Otherwise the group could include other processes.
func lower() {
	if syscall.Getpgrp() == os.Getpid() {
		_ = syscall.Setpriority(syscall.PRIO_PGRP, 0, backgroundNice) // PRIO_PROCESS would affect only one thread
	}
}

// prepareChild disables core dumps.
func prepareChild() {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}

// dataSize returns the size of the mapped private writable memory, in bytes, which RLIMIT_DATA
// limits; 0 if unknown.
func dataSize() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, b, _ = bytes.Cut(b, []byte("VmData:"))
	f := bytes.Fields(b)
	if len(f) < 2 || string(f[1]) != "kB" {
		return 0
	}
	n, err := strconv.ParseInt(string(f[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// limitMemory limits the writable memory to base + more bytes. Stacks of future threads count too.
func limitMemory(base, more int64) {
	var l syscall.Rlimit
	if base == 0 || syscall.Getrlimit(syscall.RLIMIT_DATA, &l) != nil {
		return
	}
	const stacks = 64 << 20
	l.Cur = min(uint64(base+more+stacks), l.Max)
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &l)
}
