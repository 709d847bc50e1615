package sched

import "C" // slack_linux.c sets the timer slack before the Go runtime starts
