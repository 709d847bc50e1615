#include <sys/prctl.h>

// Go's monitor thread sleeps 20 us at a time as long as a goroutine runs anywhere, and the kernel wakes it 50 us late by default: where the node
// computes in bursts it comes to thousands of wakes a second, and a switch of threads costs microseconds in a virtual machine. The slack says how late
// a wait may end. A thread has the slack of the thread that made it, and a thread's slack is its own to change, so it is set before Go makes its first.
// Who has set another than the kernel's own (systemd's TimerSlackNSec, prctl) is obeyed.
__attribute__((constructor)) static void slacken(void) {
	if (prctl(PR_GET_TIMERSLACK) == 50000)
		prctl(PR_SET_TIMERSLACK, 1000000UL);
}
