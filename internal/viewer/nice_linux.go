package viewer

import "syscall"

// lowPriority lets all other threads go before this one, where the machine has less cores than work.
func lowPriority() {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), 10) // of a thread, on Linux
}
