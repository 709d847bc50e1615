package network

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestStoredStatusBytesAreBounded: the bytes of all stored answers are bounded, and expired answers
// make room.
func TestStoredStatusBytesAreBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := &TxStatuses{asked: map[question]*openQuestion{}}
	for i := range 4 {
		s.asked[question{hash: primitives.Hash{byte(i)}}] = &openQuestion{answer: new(view.FinalOutcome),
			size: maxAnswers / 4, came: now}
	}
	last := s.asked[question{hash: primitives.Hash{3}}]
	if s.fits(new(openQuestion), 1, now) || !s.fits(last, maxAnswers/4, now) || s.fits(last, maxAnswers/4+1, now) {
		t.Error("the bound is not kept")
	}
	if later := now.Add(statusKept + 1); !s.fits(new(openQuestion), maxAnswers, later) || last.answer != nil {
		t.Error("old answers make no room")
	}
}
