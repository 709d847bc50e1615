package vm

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
)

// TestCostlySubmitterWaitsForOthers checks that a submitter with much code that is hard to compile
// waits for submitters that have used less time, in any order of arrival, and that it cannot fill
// the queue. Entries that have left the queue must not be counted.
func TestCostlySubmitterWaitsForOthers(t *testing.T) {
	var q precompileQueue
	q.start(&VM{compiler: newCompiler(&Options{}, nil, nil)}, 0)
	who := func(n byte) fair.Client { return fair.Client{Address: [16]byte{n}} }
	push := func(n byte, name string, size int) bool {
		return q.push(queuedCode{of: who(n), code: append([]byte(name+" "), make([]byte, size)...), done: make(chan struct{})})
	}
	for i := range maxQueued/queueShare + 10 {
		if ok, want := push(1, fmt.Sprint("bomb", i), 5_000), i < maxQueued/queueShare; ok != want {
			t.Fatalf("code %d of one submitter: taken %v, want %v", i, ok, want)
		}
	}
	take := func(took time.Duration) string {
		w, ok := q.pop()
		if !ok {
			t.Fatal("nothing waits")
		}
		q.compiled(&w, took)
		return string(w.code[:slices.Index(w.code, ' ')])
	}
	first := take(3 * time.Second)
	if !push(2, "honest0", 250_000) || !push(2, "honest1", 250_000) || !push(3, "other", 1) {
		t.Fatal("other submitters are refused")
	}
	got := []string{first, take(10 * time.Millisecond), take(10 * time.Millisecond), take(10 * time.Millisecond)}
	slices.Sort(got[1:])
	if want := []string{"bomb0", "honest0", "honest1", "other"}; !slices.Equal(got, want) {
		t.Errorf("the turns were of %v, want %v", got, want)
	}
	if push(4, "large", maxQueuedBytes/queueShare) {
		t.Error("one submitter gets more than its share of bytes")
	}
	for q.queue.Len() > 0 {
		take(time.Millisecond)
	}
	if q.load != (queueLoad{}) || len(q.has) != 0 {
		t.Errorf("the empty queue has load %+v, entries %v", q.load, q.has)
	}
	q.stop()
	if push(5, "late", 1) {
		t.Error("taken in after the end")
	}
}

// TestManySubmittersLeaveRoomForAnother checks that submitters that take all the room that the
// queue gives them leave room for another one.
func TestManySubmittersLeaveRoomForAnother(t *testing.T) {
	for _, many := range []int{4, 20, 100} {
		for _, size := range []int{1_000, 1 << 20} {
			var q precompileQueue
			q.start(&VM{compiler: newCompiler(&Options{}, nil, nil)}, 0)
			code := make([]byte, size)
			push := func(n int) bool {
				return q.push(queuedCode{of: fair.Client{Address: [16]byte{byte(n)}}, code: code, done: make(chan struct{})})
			}
			for range maxQueued {
				for n := range many {
					push(n)
				}
			}
			room := min(maxQueued, maxQueuedBytes/size)
			if q.load.number < room/2 {
				t.Errorf("%d submitters of %d bytes each: %d wait, want at least half of %d", many, size, q.load.number, room)
			}
			if want := room/(2*many) > 0; want && !push(many) {
				t.Errorf("%d submitters of %d bytes each have filled the queue", many, size)
			}
		}
	}
}
