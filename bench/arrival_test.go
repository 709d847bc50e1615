package bench

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestKillsAreSpreadOverTheDownload: the moments are the same for a seed, in ascending order, one in
// each part of the download. One kill is left for its end.
func TestKillsAreSpreadOverTheDownload(t *testing.T) {
	for _, kills := range []int{0, 1, 2, 10} {
		o := ArrivalOptions{Kills: kills, Seed: 3}
		got := o.moments()
		if len(got) != max(kills-1, 0) || !slices.IsSorted(got) || !slices.Equal(got, o.moments()) {
			t.Errorf("%d kills: %v", kills, got)
		}
		for i, at := range got {
			if lo := float64(i) / float64(kills-1); at < lo || at > lo+1/float64(kills-1) {
				t.Errorf("%d kills: the moment %d is %v", kills, i, at)
			}
		}
	}
	o := ArrivalOptions{Kills: 10, Seed: 3}
	first := o.moments()
	if o.Seed++; slices.Equal(first, o.moments()) {
		t.Error("another seed gives the same moments")
	}
}

// TestArrivalRefusesBadOptions: before anything is started.
func TestArrivalRefusesBadOptions(t *testing.T) {
	good := ArrivalOptions{State: filepath.Join(t.TempDir(), "missing"), Looks: 1, BlockTime: time.Second}
	for want, change := range map[string]func(*ArrivalOptions){
		"-1 kills":     func(o *ArrivalOptions) { o.Kills = -1 },
		"0 accounts":   func(o *ArrivalOptions) { o.Looks = 0 },
		"each 1µs":     func(o *ArrivalOptions) { o.BlockTime = time.Microsecond },
		"no such file": func(*ArrivalOptions) {},
	} {
		o := good
		change(&o)
		if _, err := RunArrival(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestUseAddsUpOverRuns: the memory of several runs is the greatest, everything else is the sum.
func TestUseAddsUpOverRuns(t *testing.T) {
	u := Use{CPUSeconds: 1, Peak: 5, Read: 2, Written: 3}
	u.add(Use{CPUSeconds: 2, Peak: 4, Read: 20, Written: 30})
	if want := (Use{CPUSeconds: 3, Peak: 5, Read: 22, Written: 33}); u != want {
		t.Errorf("%+v, want %+v", u, want)
	}
	if got, want := u.since(Use{CPUSeconds: 1, Peak: 9, Read: 2, Written: 3}), (Use{CPUSeconds: 2, Peak: 5, Read: 20, Written: 30}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestLogOfChildIsBounded: the log keeps its end, and notes the phrase wherever it is, also if two
// writes have a part of it each.
func TestLogOfChildIsBounded(t *testing.T) {
	var l childLog
	line := strings.Repeat("x", 99) + "\n"
	for i := range 2000 {
		if i == 7 {
			for _, part := range []string{"msg=\"" + syncComplete[:5], syncComplete[5:] + "\"\n"} {
				if l.isComplete() {
					t.Error("complete too early")
				}
				fmt.Fprint(&l, part)
			}
		}
		fmt.Fprint(&l, line)
	}
	if !l.isComplete() || len(l.text) > 3*keptLog || l.tail() != strings.Repeat(line, 40) {
		t.Errorf("complete %v, %d bytes kept, the end is %q", l.isComplete(), len(l.text), l.tail())
	}
}

// TestThroughputIsMeasured: all three speeds are positive, and the temporary file is removed.
func TestThroughputIsMeasured(t *testing.T) {
	dir := t.TempDir()
	write, read, err := diskThroughput(dir, 4<<20)
	if err != nil || write <= 0 || read <= 0 {
		t.Errorf("disk: %v, %v, error %v", write, read, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left %q, error %v", left, err)
	}
	if got, err := loopbackThroughput(16 << 20); err != nil || got <= 0 {
		t.Errorf("loopback: %v, error %v", got, err)
	}
}
