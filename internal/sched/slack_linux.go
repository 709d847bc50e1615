package sched

import "C" // slack_linux.c runs before Go does
