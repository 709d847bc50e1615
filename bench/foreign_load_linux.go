package bench

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// tick is USER_HZ, the unit of /proc/stat. USER_HZ has this value on all architectures that Go
// supports.
const tick = 10 * time.Millisecond

// machineTime returns the non-idle processor time of all cores since boot. The sum includes time
// that a hypervisor took.
func machineTime() (sum time.Duration) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(raw, []byte{'\n'})
	f := bytes.Fields(line)
	if len(f) < 9 || string(f[0]) != "cpu" {
		return 0
	}
	for i, at := range f[1:9] { // columns: user, nice, system, idle, iowait, irq, softirq, steal
		n, err := strconv.ParseInt(string(at), 10, 64)
		if err != nil {
			return 0
		}
		if i != 3 && i != 4 {
			sum += time.Duration(n) * tick
		}
	}
	return sum
}
