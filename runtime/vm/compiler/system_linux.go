package compiler

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// Self is the running binary, even if its file was replaced or removed meanwhile.
const Self = "/proc/self/exe"

// attributes: a child gets no signals of the terminal, and dies with the thread that started it,
// which lives as long as the pool.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// LowPriority lets all other threads go before this one, where the machine has fewer cores than
// work.
func LowPriority() {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), 10) // of a thread, on Linux
}

// lower gives all threads of this process, and those that they start, the priority of the
// background, for good. It does nothing in a process that leads no group of its own, as every child
// does.
func lower() {
	if syscall.Getpgrp() == os.Getpid() {
		_ = syscall.Setpriority(syscall.PRIO_PGRP, 0, backgroundNice) // PRIO_PROCESS would be one thread
	}
}

// prepareChild: no cores are written.
func prepareChild() {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
}

// dataSize is how many bytes of private writable memory are mapped, which is what RLIMIT_DATA
// limits; 0: nobody knows.
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

// limitMemory limits the writable memory to more bytes above base. Stacks of threads that are still
// to come are in it.
func limitMemory(base, more int64) {
	var l syscall.Rlimit
	if base == 0 || syscall.Getrlimit(syscall.RLIMIT_DATA, &l) != nil {
		return
	}
	const stacks = 64 << 20
	l.Cur = min(uint64(base+more+stacks), l.Max)
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &l)
}
