package network

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// TestStatusesBounds: about more transactions than there is room for nobody is asked, what nobody asks about any more goes first, and what nobody was asked about is not
// looked at.
func TestStatusesBounds(t *testing.T) {
	s := &Statuses{front: new(Front), judging: make(chan struct{}, 1), asked: map[primitives.Hash]*asking{}}
	s.took([]byte("nobody was asked"))
	if s.front.dropped.Load() != 1 {
		t.Error("an answer that nobody waits for is looked at")
	}
	now := time.Now()
	put := func(n int, ago time.Duration) {
		s.room(now)
		s.asked[primitives.Hash{byte(n), byte(n >> 8), 1}] = &asking{sent: now.Add(-ago), news: make(chan struct{})}
	}
	for n := range maxStatuses {
		put(n, time.Duration(n)*time.Millisecond)
	}
	put(maxStatuses, 0)
	if len(s.asked) != maxStatuses || s.asked[primitives.Hash{byte((maxStatuses - 1) % 256), byte((maxStatuses - 1) >> 8), 1}] != nil {
		t.Errorf("%d are kept, want %d, and not the one that was asked about first", len(s.asked), maxStatuses)
	}
	for n := range 10 {
		s.asked[primitives.Hash{byte(n), byte(n >> 8), 1}].sent = now.Add(-time.Minute)
	}
	put(maxStatuses+1, 0)
	if len(s.asked) != maxStatuses-9 {
		t.Errorf("%d are kept, want %d: what nobody has asked about for a minute goes", len(s.asked), maxStatuses-9)
	}
	s.judging <- struct{}{}
	s.took([]byte("one too many"))
	if s.front.dropped.Load() != 2 {
		t.Error("an answer is looked at beside as many as may be")
	}
	<-s.judging
	s.judge([]byte("no outcome"))
	if s.front.dropped.Load() != 3 {
		t.Error("what is no answer is not counted")
	}
}
