package node

import (
	"sync/atomic"
	"testing"
	"time"
)

// TestChangedClockKeepsBlockPace: setting the clock forward and back changes the timestamps of
// blocks but not their pace.
func TestChangedClockKeepsBlockPace(t *testing.T) {
	var shift atomic.Int64
	c := validators(t, 1, 1, 1000, func(_ int, o *Options) {
		o.Clock = func() uint64 { return uint64(time.Now().UnixNano() + shift.Load()) }
	})
	e := c.members[0].e
	c.reach(4, 120*time.Second)
	shift.Store(int64(time.Hour))
	c.reach(e.Head().Height()+4, 120*time.Second)
	ahead := e.Head().Header().Timestamp
	if least := uint64(time.Now().Add(time.Hour - 10*time.Second).UnixNano()); ahead < least {
		t.Errorf("blocks say %d, the clock more than %d", ahead, least)
	}
	shift.Store(0)
	c.reach(e.Head().Height()+10, 120*time.Second)
	if now := e.Head().Header().Timestamp; now <= ahead || now-ahead > uint64(10*time.Second) {
		t.Errorf("with the clock set back blocks have time %d, want soon after %d", now, ahead)
	}
}
