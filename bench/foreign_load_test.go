package bench

import (
	"math"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// TestForeignLoadIsOtherProcessesShare: the share of other processes is the processor time used on
// the machine minus that of this process, divided by the time of all cores. Another process is
// noticed.
func TestForeignLoadIsOtherProcessesShare(t *testing.T) {
	at, n := time.Now(), time.Duration(runtime.NumCPU())
	from := use{at: at, all: time.Hour, own: time.Minute}
	for want, to := range map[float64]use{
		0:    {at.Add(10 * time.Second), time.Hour + 3*time.Second, time.Minute + 3*time.Second},
		0.25: {at.Add(10 * time.Second), time.Hour + 3*time.Second + n*2500*time.Millisecond, time.Minute + 3*time.Second},
	} {
		if got := from.others(to); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v of the machine, want %v", got, want)
		}
	}
	if got := (use{at: at}).others(use{at: at.Add(time.Second), all: time.Hour}); got != 0 {
		t.Errorf("got %v for an unknown value", got)
	}
	if got := from.others(use{at: at.Add(time.Second), all: time.Hour, own: 2 * time.Minute}); got != 0 {
		t.Errorf("%v where the clocks of both differ", got)
	}
	if runtime.GOOS != "linux" {
		t.Skip("the machine's own count is read on Linux alone")
	}
	before := busy()
	if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	if got := before.others(busy()); got <= 0 {
		t.Errorf("another process had %v of the machine", got)
	}
}
